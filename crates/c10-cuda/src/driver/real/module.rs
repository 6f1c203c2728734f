#![expect(unsafe_code, reason = "loads images of kernels, and launches their functions")]
//! Modules: images of kernels, their functions, and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use c10_core::DeviceIndex;

use super::abi::{self, CUfunction, CUmodule};
use super::books::{Entry, same};
use super::driver::RealDriver;
use super::image::readable;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{FunctionHandle, LaunchConfig, ModuleHandle, Status, StreamHandle};
use crate::sync::{Arc, lock};

/// A module in the book.
#[derive(Debug)]
pub(super) struct Module {
    device: DeviceIndex,
}

/// A function in the book: as good as its module.
#[derive(Clone, Debug)]
pub(super) struct Function {
    module: Arc<Entry<Module>>,
    /// The sizes of its parameters, where the driver tells them.
    parameters: Option<Arc<[usize]>>,
}

impl RealDriver {
    pub(super) fn load_module(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle, Status> {
        self.device(device)?;
        let image = readable(image)?;
        let raw = self.on(device, |symbols, _| {
            let mut module: CUmodule = ptr::null_mut();
            // SAFETY: there is room for one module; the image is as long as it says, or ends with a NUL.
            check(unsafe { (symbols.module_load_data)(&mut module, image.as_ptr().cast::<c_void>()) })?;
            Ok(abi::number(module))
        })?;
        self.modules.insert(raw, Module { device });
        Ok(ModuleHandle { device, raw })
    }

    /// # Safety
    /// As [`Driver::module_unload`](crate::driver::Driver::module_unload).
    pub(super) unsafe fn unload_module(&self, module: ModuleHandle) -> Result<(), Status> {
        let entry = self.modules.get(module.raw)?;
        self.modules.end(module.raw, |known| {
            same(known.device, module.device)?;
            self.on(module.device, |symbols, _| {
                // SAFETY: the module is live, no call uses it, and the caller says that no work does.
                check(unsafe { (symbols.module_unload)(abi::pointer(module.raw)) })
            })
        })?;
        lock(&self.functions).retain(|_, function| !Arc::ptr_eq(&function.module, &entry));
        Ok(())
    }

    pub(super) fn function_of(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle, Status> {
        let entry = self.modules.get(module.raw)?;
        let raw = entry.with(|known| {
            same(known.device, module.device)?;
            // No function's name has a NUL in it.
            let name = CString::new(name).map_err(|_| Status::NotFound)?;
            let (raw, parameters) = self.on(module.device, |symbols, _| {
                let mut function: CUfunction = ptr::null_mut();
                let raw: CUmodule = abi::pointer(module.raw);
                // SAFETY: there is room for one function, the module is live, and the name ends with a NUL.
                check(unsafe { (symbols.module_get_function)(&mut function, raw, name.as_ptr()) })?;
                Ok((abi::number(function), parameters_of(symbols, function)))
            })?;
            // While the module is live: afterwards the value may be another's.
            lock(&self.functions).insert(raw, Function { module: Arc::clone(&entry), parameters });
            Ok(raw)
        })?;
        Ok(FunctionHandle { device: module.device, raw })
    }

    /// # Safety
    /// As [`Driver::launch_function`](crate::driver::Driver::launch_function).
    pub(super) unsafe fn launch_on(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<(), Status> {
        let known = lock(&self.functions).get(&function.raw).cloned().ok_or(Status::InvalidHandle)?;
        known.module.with(|module| {
            same(module.device, function.device)?;
            same(stream.device, function.device)?;
            if let Some(sizes) = &known.parameters
                && !sizes.iter().copied().eq(params.iter().map(|param| param.len()))
            {
                return Err(Status::InvalidValue);
            }
            let mut params: Vec<*mut c_void> = params.iter().map(|p| p.as_ptr().cast_mut().cast()).collect();
            let LaunchConfig { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes } = config;
            self.on_stream(stream, |symbols, stream| {
                let function: CUfunction = abi::pointer(function.raw);
                let (params, extra) = (params.as_mut_ptr(), ptr::null_mut());
                // SAFETY: function and stream are live; the caller says that the parameters are what the function
                // takes, and keeps valid what it reaches with them. The driver reads the parameters before it returns.
                check(unsafe {
                    (symbols.launch_kernel)(
                        function,
                        gx,
                        gy,
                        gz,
                        bx,
                        by,
                        bz,
                        shared_bytes,
                        stream,
                        params,
                        extra,
                    )
                })
            })
        })
    }
}

/// The sizes of a function's parameters, where the driver tells them.
fn parameters_of(symbols: &Symbols, function: CUfunction) -> Option<Arc<[usize]>> {
    let info = symbols.func_get_param_info?;
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is live, and there is room for both numbers.
        let told = unsafe { info(function, sizes.len(), &mut offset, &mut size) };
        match check(told) {
            Ok(()) => sizes.push(size),
            // There are no more.
            Err(Status::InvalidValue) => return Some(sizes.into()),
            Err(_) => return None,
        }
    }
}
