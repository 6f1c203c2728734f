//! Devices and what they are like.

use c10_cuda::driver::{DeviceProps, Driver};

use crate::abi::layout::Uuid;
use crate::abi::{Code, Out, Outcome};
use crate::entry::exports;
use crate::machine::Machine;

/// The numbers of a device that the simulator does not have of itself.
const MAX_THREADS_PER_BLOCK: i32 = 1024;
pub(super) const THREADS_PER_MULTIPROCESSOR: i32 = 2048;
pub(super) const BLOCKS_PER_MULTIPROCESSOR: i32 = 32;
pub(super) const SHARED_BYTES_PER_BLOCK: i32 = 48 << 10;
pub(super) const SHARED_BYTES_PER_MULTIPROCESSOR: i32 = 228 << 10;
/// `CU_DEVICE_ATTRIBUTE_*` go up to here.
const LAST_ATTRIBUTE: u32 = 160;

/// A device's attribute, by its number; what is not listed is 0, which for most says that the device cannot do it.
fn attribute(props: &DeviceProps, ordinal: i32, attribute: u32) -> Outcome<i32> {
    Ok(match attribute {
        1..=4 => [MAX_THREADS_PER_BLOCK, 1024, 1024, 64][attribute as usize - 1],
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED_BYTES_PER_BLOCK,
        9 => 64 << 10,
        10 => props.warp_size as i32,
        11 => i32::MAX,
        12 | 82 => 64 << 10,
        // Kilohertz of the clock and of the memory.
        13 => 1_980_000,
        36 => 2_619_000,
        14 | 29 => 512,
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 90 | 91 | 95 | 99 | 102 | 103 | 115 => 1,
        16 => props.multi_processor_count as i32,
        33 => ordinal + 1,
        37 => 5120,
        38 => 50 << 20,
        39 => THREADS_PER_MULTIPROCESSOR,
        40 => 3,
        75 => props.compute_capability.0 as i32,
        76 => props.compute_capability.1 as i32,
        81 => SHARED_BYTES_PER_MULTIPROCESSOR,
        97 => 227 << 10,
        106 => BLOCKS_PER_MULTIPROCESSOR,
        111 => 1024,
        0 => return Err(Code::INVALID_VALUE),
        unlisted if unlisted <= LAST_ATTRIBUTE => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn uuid(machine: &Machine, device: i32) -> Outcome<Uuid> {
    let device = machine.device(device)?;
    let mut bytes = *b"cuda-standin....";
    bytes[12..].copy_from_slice(&u32::from(device).to_be_bytes());
    Ok(Uuid(bytes))
}

/// A text for a buffer that a program passes, cut to fit, with its zero.
fn put_text(text: &str, out: &Out<u8>, length: i32) -> Outcome {
    let room = usize::try_from(length).ok().and_then(|n| n.checked_sub(1)).ok_or(Code::INVALID_VALUE)?;
    let mut bytes: Vec<u8> = text.bytes().take(room).collect();
    bytes.push(0);
    out.put_all(&bytes)
}

exports! {
    Init fn cuDeviceGetCount(count: Out<i32>) |machine| { count.put(machine.settings.devices as i32) }

    Init fn cuDeviceGet(device: Out<i32>, ordinal: i32) |machine| {
        device.check()?;
        machine.device(ordinal)?;
        device.put(ordinal)
    }

    Init fn cuDeviceGetName(name: Out<u8>, length: i32, device: i32) |machine| {
        let props = machine.sim.device_props(machine.device(device)?)?;
        put_text(&props.name, &name, length)
    }

    Init fn cuDeviceGetUuid(out: Out<Uuid>, device: i32) |machine| { out.put(uuid(machine, device)?) }

    Init fn cuDeviceGetUuid_v2(out: Out<Uuid>, device: i32) |machine| { out.put(uuid(machine, device)?) }

    Init fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |machine| {
        let props = machine.sim.device_props(machine.device(device)?)?;
        bytes.put(props.total_memory as usize)
    }

    Init fn cuDeviceGetAttribute(value: Out<i32>, which: u32, device: i32) |machine| {
        value.check()?;
        let props = machine.sim.device_props(machine.device(device)?)?;
        value.put(attribute(&props, device, which)?)
    }

    Init fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) |machine| {
        let (high, low) = machine.sim.device_props(machine.device(device)?)?.compute_capability;
        major.check()?;
        minor.put(low as i32)?;
        major.put(high as i32)
    }

    Init fn cuDeviceGetPCIBusId(id: Out<u8>, length: i32, device: i32) |machine| {
        let device = machine.device(device)?;
        put_text(&format!("0000:{:02X}:00.0", device + 1), &id, length)
    }

    Init fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) |machine| {
        can.check()?;
        let (device, peer) = (machine.device(device)?, machine.device(peer)?);
        can.put(i32::from(machine.sim.can_access_peer(device, peer)?))
    }

    /// Attribute 2 says whether one device reaches the other's memory.
    Init fn cuDeviceGetP2PAttribute(value: Out<i32>, which: u32, device: i32, peer: i32) |machine| {
        value.check()?;
        let (device, peer) = (machine.device(device)?, machine.device(peer)?);
        if device == peer || !(1..=5).contains(&which) {
            return Err(Code::INVALID_VALUE);
        }
        let reaches = machine.sim.can_access_peer(device, peer)?;
        value.put(i32::from(which == 2 && reaches))
    }
}
