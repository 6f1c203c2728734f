/* A program in C on the machine's CUDA driver, which it loads itself: its own context and stream, the allocator's memory.
 * It prints what it finds. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensorplay_cuda.h"

/* cuda.h, as far as it is needed. */
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

/* A function of the driver; the program ends where it has none of that name. */
static void find(void *driver, const char *name, void *function) {
  void *found = dlsym(driver, name);
  if (found == NULL) {
    printf("no %s\n", name);
    return;
  }
  memcpy(function, &found, sizeof found); /* C has no conversion between the two kinds of pointers */
}

static void print_error(const char *what) {
  char text[400];
  tensorplay_cuda_last_error(text, sizeof text);
  printf("%s: %s\n", what, text);
}

/* A process that is forked off has the allocator's books and no CUDA: what needs the driver fails there, and its end does
 * no harm to this one. */
static void fork_off(void *block, void *stream) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    void *more = tensorplay_cuda_alloc((size_t)64 << 20, 0, stream);
    tensorplay_cuda_free(block, 1000, 0, stream);
    exit(more == NULL && tensorplay_cuda_empty_cache() != 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  printf("forked %d\n", status);
}

int main(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    printf("init %d\n", tensorplay_cuda_init("", 0, 0));
    print_error("init");
    return 0;
  }
  CUresult (*cuInit)(unsigned) = NULL;
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice) = NULL;
  CUresult (*cuDevicePrimaryCtxRelease)(CUdevice) = NULL;
  CUresult (*cuCtxSetCurrent)(CUcontext) = NULL;
  CUresult (*cuStreamCreate)(CUstream *, unsigned) = NULL;
  CUresult (*cuStreamSynchronize)(CUstream) = NULL;
  CUresult (*cuStreamDestroy)(CUstream) = NULL;
  CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr, const void *, size_t, CUstream) = NULL;
  CUresult (*cuMemcpyDtoHAsync)(void *, CUdeviceptr, size_t, CUstream) = NULL;
  find(driver, "cuInit", &cuInit);
  find(driver, "cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain);
  find(driver, "cuDevicePrimaryCtxRelease_v2", &cuDevicePrimaryCtxRelease);
  find(driver, "cuCtxSetCurrent", &cuCtxSetCurrent);
  find(driver, "cuStreamCreate", &cuStreamCreate);
  find(driver, "cuStreamSynchronize", &cuStreamSynchronize);
  find(driver, "cuStreamDestroy_v2", &cuStreamDestroy);
  find(driver, "cuMemcpyHtoDAsync_v2", &cuMemcpyHtoDAsync);
  find(driver, "cuMemcpyDtoHAsync_v2", &cuMemcpyDtoHAsync);
  if (!cuInit || !cuDevicePrimaryCtxRetain || !cuDevicePrimaryCtxRelease || !cuCtxSetCurrent || !cuStreamCreate ||
      !cuStreamSynchronize || !cuStreamDestroy || !cuMemcpyHtoDAsync || !cuMemcpyDtoHAsync)
    return 1;

  CUcontext context = NULL;
  CUstream stream = NULL;
  printf("context %d\n", cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context));
  printf("stream %d\n", cuStreamCreate(&stream, 1 /* CU_STREAM_NON_BLOCKING */));
  printf("sized %d\n", tensorplay_cuda_init("", 0, 1 << 30));
  print_error("sized");
  printf("init %d\n", tensorplay_cuda_init("expandable_segments:False", 0, 0));

  char *block = tensorplay_cuda_alloc(1000, 0, stream);
  if (block == NULL) {
    print_error("alloc");
    return 1;
  }
  char sent[1000], received[1000];
  for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(i * 7);
  memset(received, 0, sizeof received);
  printf("copies %d\n", cuMemcpyHtoDAsync((CUdeviceptr)(size_t)block, sent, sizeof sent, stream) ||
                            cuMemcpyDtoHAsync(received, (CUdeviceptr)(size_t)block, sizeof received, stream) ||
                            cuStreamSynchronize(stream));
  printf("came back %d\n", memcmp(sent, received, sizeof sent) == 0);

  fork_off(block, stream);

  /* Another stream's use, declared; the driver knows when it is over. */
  tensorplay_cuda_record_stream(block, NULL);
  tensorplay_cuda_free(block, 1000, 0, stream);
  printf("reused %d\n", tensorplay_cuda_alloc(1000, 0, stream) == block);
  tensorplay_cuda_free(block, 1000, 0, stream);

  printf("simulated %d\n", tensorplay_cuda_sim_new_stream(0) != NULL);
  print_error("simulated");
  printf("empty %d\n", tensorplay_cuda_empty_cache());
  tensorplay_cuda_stats_t stats;
  printf("stats %d", tensorplay_cuda_stats(0, &stats));
  printf(" reserved %llu allocs %llu frees %llu\n", (unsigned long long)stats.reserved,
         (unsigned long long)stats.num_device_alloc, (unsigned long long)stats.num_device_free);
  tensorplay_cuda_forget_stream(0, stream);
  printf("end %d\n", cuStreamDestroy(stream) || cuDevicePrimaryCtxRelease(0));
  return 0;
}
