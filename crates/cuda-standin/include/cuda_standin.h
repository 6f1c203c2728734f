/* What the stand-in for CUDA's driver offers beside CUDA's functions. Programs that may run on a real driver find these
 * by dlsym, and know by that that it is the stand-in.
 *
 * Until a reset the machine is as the environment says: CUDA_STANDIN_DEVICES devices (1) with CUDA_STANDIN_BYTES bytes
 * each (4 GiB), and work runs as CUDA_STANDIN_COMPLETION says: eager, when it is issued (the default); manual, when it
 * is waited for; seeded:N, as the seed N decides. What is no such value is as by default.
 *
 * CUDA_STANDIN_EXIT says what is made of how a process ends that has called cuInit: report writes to the standard error
 * what it has not given back, and how many calls it has made, and then each call that comes after; strict writes that
 * only where something is live or comes after, and ends the process with 86. */
#ifndef CUDA_STANDIN_H
#define CUDA_STANDIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new machine of `devices` devices with `bytes` bytes each. `completion` says when work runs: 0 when it is issued,
 * 1 when it is waited for. 0 says that it is there; UINT32_MAX, that there is no such machine; any other result is how
 * many handles are still live, and nothing has been done. */
uint32_t cuda_standin_reset(uint32_t devices, uint64_t bytes, uint32_t completion);

/* How many streams, events, graphs, launchable graphs, modules, allocations, reservations, physical memories, host
 * allocations and registrations, and openings of other processes' memory nobody has given back. */
uint64_t cuda_standin_live_handles(void);

/* How many contexts there are, each primary one as often as it is retained. */
uint64_t cuda_standin_live_contexts(void);

/* How many handles have ended with their context, and not by a call of their own, since the last reset. */
uint64_t cuda_standin_swept_handles(void);

/* The `nth` call from here of a function by its exported name ("cuMemAlloc_v2"), 1 being the next, does nothing and
 * gives `result`, once. 0 says that it will; UINT32_MAX, that there is no such function. */
uint32_t cuda_standin_fail(const char *call, uint64_t nth, uint32_t result);

/* No call fails any more because it was told to. The result is how many failures there were still to come. */
uint64_t cuda_standin_fail_clear(void);

/* Until the contexts of a device have ended, every call in them fails with `result`, which is one of those from which
 * CUDA does not recover (700, 719, 214, ...). 0 says that it is so. */
uint32_t cuda_standin_lose(uint32_t device, uint32_t result);

/* How many calls of CUDA's functions there have been in the life of the process. */
uint64_t cuda_standin_calls(void);

/* Runs all work that has been issued. */
void cuda_standin_complete_all(void);

/* A range of a device's memory. */
typedef struct cuda_standin_range {
    uint64_t ptr;
    uint64_t bytes;
} cuda_standin_range;

/* A launch of a kernel that runs on the host. */
typedef struct cuda_standin_launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    uint32_t param_count;
    const void *const *params;
} cuda_standin_launch;

/* How many ranges a kernel can read, and how many it can write. */
#define CUDA_STANDIN_RANGES 16

/* Says what a launch reads and writes: in each array there is room for CUDA_STANDIN_RANGES, and each count is 0. It is
 * asked more than once for a launch, and always says the same. */
typedef void (*cuda_standin_accesses)(const cuda_standin_launch *launch, cuda_standin_range *reads, uint32_t *read_count,
                                      cuda_standin_range *writes, uint32_t *write_count);

/* Does it, in the stream's order. `reads` and `writes` are the ranges' contents on the host, the latter with what stands
 * there before; what they are afterwards is put back. It must not call CUDA, as host functions must not. */
typedef void (*cuda_standin_body)(const cuda_standin_launch *launch, const void *const *reads, void *const *writes);

/* Says what functions of a name do, in modules that are loaded from here on. 0 says that it is so; UINT32_MAX, that the
 * name is none, or that there are as many kernels as there can be (32). */
uint32_t cuda_standin_register_kernel(const char *name, cuda_standin_accesses accesses, cuda_standin_body body);

#ifdef __cplusplus
}
#endif

#endif
