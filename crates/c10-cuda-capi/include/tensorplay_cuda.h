/* TensorPlay's CUDA caching allocator, for programs in C.
 *
 * One allocator to a process, made by the first call that needs it or by tensorplay_cuda_init. It runs on a simulated
 * machine, or on this machine's CUDA driver where TENSORPLAY_CUDA_DRIVER says so and the library was built for it. All functions may be called from any thread. One that fails gives null or a code, and its text is there for
 * tensorplay_cuda_last_error on the same thread.
 *
 * Environment: TENSORPLAY_CUDA_DRIVER (sim unless set, or cuda); and where tensorplay_cuda_init does not say otherwise
 * PYTORCH_CUDA_ALLOC_CONF (settings), TENSORPLAY_CUDA_SIM_DEVICES (1 unless set), TENSORPLAY_CUDA_SIM_BYTES (of each
 * device; 80 GiB unless set).
 *
 * In PyTorch:
 *   allocator = torch.cuda.memory.CUDAPluggableAllocator(
 *       "libtensorplay_cuda.so", "tensorplay_cuda_alloc", "tensorplay_cuda_free")
 */
#ifndef TENSORPLAY_CUDA_H
#define TENSORPLAY_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cudaStream_t; null is the default stream. One that was named to the allocator must not end before
 * tensorplay_cuda_forget_stream. */
typedef void *tensorplay_cuda_stream_t;

/* Codes; 0 is success. */
enum {
  TENSORPLAY_CUDA_OUT_OF_MEMORY = 1,
  TENSORPLAY_CUDA_INVALID_ARGUMENT = 2,
  TENSORPLAY_CUDA_CONFIG = 3,
  TENSORPLAY_CUDA_DRIVER = 4,
  TENSORPLAY_CUDA_NOT_READY = 5,
  TENSORPLAY_CUDA_NOT_IMPLEMENTED = 6,
  TENSORPLAY_CUDA_INTERNAL = 7,
  TENSORPLAY_CUDA_FILE = 8
};

/* Makes the allocator. settings has the form of PYTORCH_CUDA_ALLOC_CONF; null takes the environment's, and so does 0
 * for a number. device_bytes is for simulated devices alone. Refused once the allocator is there. */
int tensorplay_cuda_init(const char *settings, int devices, uint64_t device_bytes);
/* For PyTorch's set_init_fn: sees that there are so many devices. */
void tensorplay_cuda_init_devices(int device_count);
/* The text of this thread's last failure, cut to size - 1 bytes and ended by 0. Gives the length of the whole text. */
size_t tensorplay_cuda_last_error(char *text, size_t size);

/* size bytes of the device, for work on the stream; null for 0 bytes, and when it fails. */
void *tensorplay_cuda_alloc(size_t size, int device, tensorplay_cuda_stream_t stream);
/* Takes memory back. Size, device and stream are known and not looked at. An address that is not the allocator's is
 * left alone, and the last error says so. */
void tensorplay_cuda_free(void *ptr, size_t size, int device, tensorplay_cuda_stream_t stream);
/* Work on the stream uses the memory: it is not reused before what the stream holds when it is freed is done. */
void tensorplay_cuda_record_stream(void *ptr, tensorplay_cuda_stream_t stream);
/* Before a stream that was named ends. Memory that waits for it comes back when all of the device has been waited for. */
void tensorplay_cuda_forget_stream(int device, tensorplay_cuda_stream_t stream);
/* The driver's allocation in which the memory lies, with its size in *size unless that is null. */
void *tensorplay_cuda_base_alloc(void *ptr, size_t *size);

/* Gives back what is cached; for PyTorch's set_reset_fn. */
int tensorplay_cuda_empty_cache(void);
/* Caps the allocator's bytes at a part of the device's memory, in [0, 1]. */
void tensorplay_cuda_memory_fraction(double fraction, int device);

/* Sizes in bytes. */
typedef struct tensorplay_cuda_stats_t {
  uint64_t allocated, allocated_peak;
  uint64_t reserved, reserved_peak;
  uint64_t active, requested;
  uint64_t num_device_alloc, num_device_free;
  uint64_t num_ooms, num_alloc_retries;
} tensorplay_cuda_stats_t;
int tensorplay_cuda_stats(int device, tensorplay_cuda_stats_t *stats);

/* Keeps the newest max_entries things that the allocator does, for snapshots; 0 ends that and forgets them. */
int tensorplay_cuda_record_history(uint64_t max_entries);
/* Writes what the allocator holds, and the history, to a file that https://docs.pytorch.org/memory_viz and
 * `tensorplay report` open. */
int tensorplay_cuda_snapshot(const char *path);

/* A private pool's name, as PyTorch's MempoolId_t. */
typedef struct tensorplay_cuda_mempool_id_t {
  uint64_t first, second;
} tensorplay_cuda_mempool_id_t;
/* What this thread allocates comes from the pool, until the end. Each begin counts one use, which a release takes
 * back; with the last the pool's memory can go. */
int tensorplay_cuda_begin_allocate_to_pool(int device, tensorplay_cuda_mempool_id_t id);
int tensorplay_cuda_end_allocate_to_pool(int device, tensorplay_cuda_mempool_id_t id);
int tensorplay_cuda_release_pool(int device, tensorplay_cuda_mempool_id_t id);

/* The simulated machine, refused on another: a stream of a device, and the end of all work. */
tensorplay_cuda_stream_t tensorplay_cuda_sim_new_stream(int device);
void tensorplay_cuda_sim_complete_all(void);

#ifdef __cplusplus
}
#endif

#endif
