#![expect(unsafe_code, reason = "implements the trait's unsafe fns; there is no unsafe block here")]
//! [`Driver`] for [`SimDriver`]: each call names itself and goes to the file of its subject.

use std::ptr::NonNull;

use c10_core::DeviceIndex;

use super::call::CallName;
use super::driver::{SimDriver, Site};
use super::space::GRANULARITY;
use super::state::device_of_address;
use super::stream::PRIORITY_RANGE;
use crate::driver::{
    CaptureState, CopyEnd, DeviceProps, DevicePtr, Driver, EventFlags, EventHandle, IpcHandle, KernelLaunch,
    MemoryInfo, PhysHandle, Result, Status, StreamHandle, VaRange, sealed,
};

impl Site {
    fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn at(ptr: DevicePtr, bytes: u64) -> Self {
        Self { ptr, bytes, ..Self::default() }
    }

    fn on(stream: StreamHandle) -> Self {
        Self { stream: Some(stream), ..Self::default() }
    }

    fn of(event: EventHandle) -> Self {
        Self { event: Some(event), ..Self::default() }
    }
}

impl sealed::Sealed for SimDriver {}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn device_count(&self) -> DeviceIndex {
        self.count()
    }

    fn device_props(&self, device: DeviceIndex) -> Result<DeviceProps> {
        self.call(CallName::DeviceProps, device, Site::default(), |s, _| {
            Ok(DeviceProps {
                name: "Simulated device".to_owned(),
                total_memory: s.device(device)?.total,
                compute_capability: (9, 0),
                multi_processor_count: 132,
                warp_size: 32,
            })
        })
    }

    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        self.call(CallName::MemoryInfo, device, Site::default(), |s, _| s.memory_info(device))
    }

    fn device_synchronize(&self, device: DeviceIndex) -> Result<()> {
        self.call(CallName::DeviceSynchronize, device, Site::default(), |s, _| s.device_synchronize(device))
    }

    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr> {
        self.call(CallName::Malloc, device, Site::bytes(bytes), |s, site| {
            site.ptr = s.malloc(device, bytes)?;
            Ok(site.ptr)
        })
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.call(CallName::Free, device_of_address(ptr.0), Site::at(ptr, 0), |s, _| s.free(ptr))
    }

    fn granularity(&self, device: DeviceIndex) -> Result<u64> {
        self.call(CallName::Granularity, device, Site::default(), |s, _| {
            s.device(device).map(|_| GRANULARITY)
        })
    }

    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange> {
        self.call(CallName::Reserve, device, Site::bytes(bytes), |_, _| Err(Status::NotSupported))
    }

    unsafe fn free_range(&self, range: VaRange) -> Result<()> {
        let site = Site::at(range.base, range.bytes);
        self.call(CallName::FreeRange, device_of_address(range.base.0), site, |_, _| {
            Err(Status::NotSupported)
        })
    }

    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle> {
        self.call(CallName::Create, device, Site::bytes(bytes), |_, _| Err(Status::NotSupported))
    }

    fn release(&self, memory: PhysHandle) -> Result<()> {
        self.call(CallName::Release, memory.device, Site::bytes(memory.bytes), |_, _| {
            Err(Status::NotSupported)
        })
    }

    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()> {
        let site = Site::at(at, memory.bytes);
        self.call(CallName::Map, memory.device, site, |_, _| Err(Status::NotSupported))
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, _devices: &[DeviceIndex]) -> Result<()> {
        let site = Site::at(at, bytes);
        self.call(CallName::SetAccess, device_of_address(at.0), site, |_, _| Err(Status::NotSupported))
    }

    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        let site = Site::at(at, bytes);
        self.call(CallName::Unmap, device_of_address(at.0), site, |_, _| Err(Status::NotSupported))
    }

    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)> {
        self.call(CallName::StreamPriorityRange, device, Site::default(), |s, _| {
            s.device(device).map(|_| PRIORITY_RANGE)
        })
    }

    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle> {
        self.call(CallName::StreamCreate, device, Site::default(), |s, site| {
            let stream = s.stream_create(device, priority)?;
            site.stream = Some(stream);
            Ok(stream)
        })
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.call(CallName::StreamDestroy, stream.device, Site::on(stream), |s, _| s.stream_destroy(stream))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<bool> {
        self.call(CallName::StreamQuery, stream.device, Site::on(stream), |s, _| s.stream_query(stream))
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let site = Site::on(stream);
        self.call(CallName::StreamSynchronize, stream.device, site, |s, _| s.stream_synchronize(stream))
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let site = Site { event: Some(event), ..Site::on(stream) };
        self.call(CallName::StreamWaitEvent, stream.device, site, |s, _| s.stream_wait_event(stream, event))
    }

    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle> {
        self.call(CallName::EventCreate, device, Site::default(), |s, site| {
            let event = s.event_create(device, flags)?;
            site.event = Some(event);
            Ok(event)
        })
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.call(CallName::EventDestroy, event.device, Site::of(event), |s, _| s.event_destroy(event))
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let site = Site { event: Some(event), ..Site::on(stream) };
        self.call(CallName::EventRecord, event.device, site, |s, _| s.event_record(event, stream))
    }

    fn event_query(&self, event: EventHandle) -> Result<bool> {
        self.call(CallName::EventQuery, event.device, Site::of(event), |s, _| s.event_query(event))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let site = Site::of(event);
        self.call(CallName::EventSynchronize, event.device, site, |s, _| s.event_synchronize(event))
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let site = Site::of(start);
        self.call(CallName::EventElapsedMs, start.device, site, |s, _| s.event_elapsed_ms(start, end))
    }

    unsafe fn copy(&self, _dst: CopyEnd, _src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()> {
        let site = Site { bytes, ..Site::on(stream) };
        self.call(CallName::Copy, stream.device, site, |_, _| Err(Status::NotSupported))
    }

    unsafe fn fill(&self, dst: DevicePtr, _value: u8, bytes: u64, stream: StreamHandle) -> Result<()> {
        let site = Site { ptr: dst, bytes, ..Site::on(stream) };
        self.call(CallName::Fill, stream.device, site, |_, _| Err(Status::NotSupported))
    }

    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>> {
        self.call(CallName::HostAlloc, 0, Site::bytes(bytes), |_, _| Err(Status::NotSupported))
    }

    unsafe fn host_free(&self, _ptr: NonNull<u8>) -> Result<()> {
        self.call(CallName::HostFree, 0, Site::default(), |_, _| Err(Status::NotSupported))
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        self.call(CallName::CaptureState, stream.device, Site::on(stream), |s, _| {
            s.stream_id(stream).map(|_| CaptureState::None)
        })
    }

    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        self.call(CallName::CanAccessPeer, device, Site::default(), |s, _| s.can_access_peer(device, peer))
    }

    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        self.call(CallName::EnablePeerAccess, device, Site::default(), |s, _| {
            s.enable_peer_access(device, peer)
        })
    }

    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle> {
        let site = Site::at(ptr, 0);
        self.call(CallName::IpcExport, device_of_address(ptr.0), site, |_, _| Err(Status::NotSupported))
    }

    unsafe fn ipc_open(&self, device: DeviceIndex, _handle: &IpcHandle) -> Result<DevicePtr> {
        self.call(CallName::IpcOpen, device, Site::default(), |_, _| Err(Status::NotSupported))
    }

    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()> {
        let site = Site::at(ptr, 0);
        self.call(CallName::IpcClose, device_of_address(ptr.0), site, |_, _| Err(Status::NotSupported))
    }

    unsafe fn launch(&self, stream: StreamHandle, _kernel: KernelLaunch) -> Result<()> {
        self.call(CallName::Launch, stream.device, Site::on(stream), |_, _| Err(Status::NotSupported))
    }
}
