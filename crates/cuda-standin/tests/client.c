/* A program of CUDA's driver as C programs are, linked to the library by its name: what it sees of the stand-in. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_standin.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr ptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra);

static void expect(const char *what, CUresult result, CUresult expected) {
    const char *name = NULL;
    if (result == expected) return;
    cuGetErrorName(result, &name);
    printf("%s gives %d (%s), not %d\n", what, result, name ? name : "?", expected);
    exit(1);
}

#define OK(call) expect(#call, call, 0)

/* triple(out, in, count): out[i] = 3 * in[i]; every other number is left as it is. */
static uint64_t word(const cuda_standin_launch *launch, uint32_t index) {
    uint64_t value;
    memcpy(&value, launch->params[index], sizeof value);
    return value;
}

static void triple_accesses(const cuda_standin_launch *launch, cuda_standin_range *reads, uint32_t *read_count,
                            cuda_standin_range *writes, uint32_t *write_count) {
    uint64_t bytes = word(launch, 2) * sizeof(int);
    writes[0].ptr = word(launch, 0);
    writes[0].bytes = bytes;
    *write_count = 1;
    reads[0].ptr = word(launch, 1);
    reads[0].bytes = bytes;
    *read_count = 1;
}

static CUresult called_from_kernel = -1;

static void triple(const cuda_standin_launch *launch, const void *const *reads, void *const *writes) {
    const int *in = reads[0];
    int *out = writes[0];
    uint64_t i;
    for (i = 0; i < word(launch, 2); i += 2) out[i] = 3 * in[i];
    called_from_kernel = cuCtxSynchronize();
}

static void runs_kernels(void) {
    static const char image[] = "tensorplay host kernels 1\ntriple 8 8 8\n";
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUdeviceptr out, in;
    int numbers[4] = {1, 2, 3, 4}, results[4] = {-1, -1, -1, -1};
    uint64_t count = 4;
    void *params[3];
    expect("an image of unknown kernels", cuModuleLoadData(&module, image), 200);
    if (cuda_standin_register_kernel("triple", triple_accesses, triple) != 0) exit(2);
    if (cuda_standin_register_kernel("two words", triple_accesses, triple) == 0) exit(2);
    OK(cuModuleLoadData(&module, image));
    OK(cuModuleGetFunction(&function, module, "triple"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&out, sizeof results));
    OK(cuMemAlloc_v2(&in, sizeof numbers));
    OK(cuMemcpyHtoD_v2(in, numbers, sizeof numbers));
    OK(cuMemcpyHtoD_v2(out, results, sizeof results));
    params[0] = &out;
    params[1] = &in;
    params[2] = &count;
    OK(cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, stream, params, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(results, out, sizeof results));
    printf("tripled %d %d %d %d\n", results[0], results[1], results[2], results[3]);
    expect("a call from a kernel", called_from_kernel, 800);
    OK(cuMemFree_v2(out));
    OK(cuMemFree_v2(in));
    OK(cuStreamDestroy_v2(stream));
    OK(cuModuleUnload(module));
}

static CUcontext shared_context;

static void *uses_memory(void *argument) {
    unsigned char value = *(unsigned char *)argument, bytes[256], back[256];
    int round;
    OK(cuCtxSetCurrent(shared_context));
    memset(bytes, value, sizeof bytes);
    for (round = 0; round < 100; round++) {
        CUdeviceptr ptr;
        OK(cuMemAlloc_v2(&ptr, sizeof bytes));
        OK(cuMemcpyHtoD_v2(ptr, bytes, sizeof bytes));
        OK(cuMemcpyDtoH_v2(back, ptr, sizeof back));
        if (memcmp(bytes, back, sizeof bytes) != 0) return NULL;
        OK(cuMemFree_v2(ptr));
    }
    return argument;
}

static void runs_threads(void) {
    pthread_t threads[4];
    unsigned char values[4] = {1, 2, 3, 4};
    int i, right = 0;
    for (i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, uses_memory, &values[i]) != 0) exit(3);
    for (i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        right += result == &values[i];
    }
    printf("threads %d\n", right);
}

static void forks(void) {
    int status, count;
    pid_t child = fork();
    if (child == 0) {
        /* CUDA does not work in a process that was forked off behind cuInit. */
        _exit(cuDeviceGetCount(&count) == 3 && cuInit(0) == 3 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    printf("forked %d\n", status);
}

/* Registered before the driver's own handler, and so run after it: by then the driver is gone. */
static void at_the_end(void) {
    int count;
    printf("at the end %d\n", cuDeviceGetCount(&count));
    fflush(stdout);
}

int main(void) {
    CUdevice device;
    int count, version;
    char name[64];
    if (atexit(at_the_end) != 0) return 4;
    expect("a call before cuInit", cuDeviceGetCount(&count), 3);
    expect("flags", cuInit(1), 1);
    OK(cuInit(0));
    OK(cuDriverGetVersion(&version));
    OK(cuDeviceGetCount(&count));
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGetName(name, sizeof name, device));
    printf("%d device, %s, %s\n", count, name, version >= 12000 ? "12 or later" : "old");
    expect("a call without a context", cuCtxSynchronize(), 201);
    OK(cuCtxCreate_v2(&shared_context, 0, device));
    runs_kernels();
    runs_threads();
    forks();
    if (cuda_standin_live_handles() != 0 || cuda_standin_live_contexts() != 1) return 5;
    OK(cuCtxDestroy_v2(shared_context));
    printf("calls %s\n", cuda_standin_calls() > 1000 ? "many" : "few");
    return 0;
}
