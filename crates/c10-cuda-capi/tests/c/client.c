/* A program in C that uses the allocator, as one that knows the header alone would. It prints what it finds. */
#include <stdio.h>
#include <string.h>

#include "tensorplay_cuda.h"

static void print_error(const char *what) {
  char text[400];
  tensorplay_cuda_last_error(text, sizeof text);
  printf("%s: %s\n", what, text);
}

/* 1 where the file is a pickle that names what a snapshot has. */
static int is_snapshot(const char *path) {
  static char bytes[1 << 20];
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 0;
  size_t length = fread(bytes, 1, sizeof bytes - 1, file);
  fclose(file);
  if (length < 2 || (unsigned char)bytes[0] != 0x80 || bytes[length - 1] != '.') return 0;
  for (size_t i = 0; i < length; i++)
    if (bytes[i] == 0) bytes[i] = ' '; /* so that the names are found by strstr */
  return strstr(bytes, "segments") && strstr(bytes, "device_traces") && strstr(bytes, "segment_alloc");
}

static void print_stats(int device) {
  tensorplay_cuda_stats_t s;
  printf("stats %d", tensorplay_cuda_stats(device, &s));
  printf(" allocated %llu reserved %llu active %llu requested %llu allocs %llu frees %llu ooms %llu\n",
         (unsigned long long)s.allocated, (unsigned long long)s.reserved, (unsigned long long)s.active,
         (unsigned long long)s.requested, (unsigned long long)s.num_device_alloc,
         (unsigned long long)s.num_device_free, (unsigned long long)s.num_ooms);
}

int main(int argc, char **argv) {
  if (argc > 2) { /* devices first, as PyTorch calls it */
    tensorplay_cuda_init_devices(2);
    printf("second device %d\n", tensorplay_cuda_alloc(1000, 1, NULL) != NULL);
    return 0;
  }
  if (argc > 1) { /* wrong settings */
    printf("init %d\n", tensorplay_cuda_init(argv[1], 0, 0));
    print_error("init");
    printf("alloc %d\n", tensorplay_cuda_alloc(1, 0, NULL) != NULL);
    return 0;
  }
  printf("init %d\n", tensorplay_cuda_init("max_split_size_mb:20", 2, 64 << 20));
  printf("again %d\n", tensorplay_cuda_init(NULL, 0, 0));
  print_error("again");
  tensorplay_cuda_init_devices(2);
  printf("history %d\n", tensorplay_cuda_record_history(1000));

  char *first = tensorplay_cuda_alloc(1000, 0, NULL);
  char *second = tensorplay_cuda_alloc(1000, 0, NULL);
  size_t size = 0;
  char *base = tensorplay_cuda_base_alloc(second, &size);
  printf("second is %d bytes on, in %d MiB\n", (int)(second - base), (int)(size >> 20));
  print_stats(0);

  /* A block that another stream uses comes back when that has passed. */
  tensorplay_cuda_stream_t side = tensorplay_cuda_sim_new_stream(0);
  tensorplay_cuda_record_stream(first, side);
  tensorplay_cuda_free(first, 1000, 0, NULL);
  char *third = tensorplay_cuda_alloc(1000, 0, NULL);
  printf("reused at once %d\n", third == first);
  tensorplay_cuda_sim_complete_all();
  char *fourth = tensorplay_cuda_alloc(1000, 0, NULL);
  printf("reused later %d\n", fourth == first);

  /* The second device's memory, and its stream of the same name. */
  char *there = tensorplay_cuda_alloc(1000, 1, NULL);
  tensorplay_cuda_stream_t far = tensorplay_cuda_sim_new_stream(1);
  tensorplay_cuda_record_stream(there, far);
  tensorplay_cuda_free(there, 1000, 1, NULL);
  char *meanwhile = tensorplay_cuda_alloc(1000, 1, NULL);
  printf("there at once %d\n", meanwhile == there);
  tensorplay_cuda_sim_complete_all();
  printf("there later %d\n", tensorplay_cuda_alloc(1000, 1, NULL) == there);
  tensorplay_cuda_free(there, 1000, 1, NULL);
  tensorplay_cuda_free(meanwhile, 1000, 1, NULL);
  tensorplay_cuda_forget_stream(1, far);

  tensorplay_cuda_free(third, 1000, 0, NULL);
  tensorplay_cuda_free(third, 1000, 0, NULL);
  print_error("double free");
  tensorplay_cuda_free(NULL, 0, 0, NULL);
  tensorplay_cuda_record_stream((void *)8, NULL);
  print_error("foreign");

  printf("too much %d\n", tensorplay_cuda_alloc(65 << 20, 0, NULL) != NULL);
  print_error("too much");
  printf("no device %d\n", tensorplay_cuda_alloc(1, 2, NULL) != NULL);
  print_error("no device");
  tensorplay_cuda_memory_fraction(0.25, 1);
  printf("beyond the fraction %d\n", tensorplay_cuda_alloc(20 << 20, 1, NULL) != NULL);
  tensorplay_cuda_memory_fraction(2, 1);
  print_error("fraction");
  printf("no place %d\n", tensorplay_cuda_stats(0, NULL));

  tensorplay_cuda_mempool_id_t pool = {0, 7};
  printf("begin %d\n", tensorplay_cuda_begin_allocate_to_pool(1, pool));
  char *inside = tensorplay_cuda_alloc(1000, 1, NULL);
  printf("end %d\n", tensorplay_cuda_end_allocate_to_pool(1, pool));
  printf("end again %d\n", tensorplay_cuda_end_allocate_to_pool(1, pool));
  char *outside = tensorplay_cuda_alloc(1000, 1, NULL);
  printf("apart %d\n", outside - inside >= (2 << 20) || inside - outside >= (2 << 20));
  tensorplay_cuda_free(inside, 1000, 1, NULL);
  tensorplay_cuda_free(outside, 1000, 1, NULL);
  printf("release %d\n", tensorplay_cuda_release_pool(1, pool));

  printf("snapshot %d\n", tensorplay_cuda_snapshot("snapshot.pickle"));
  printf("it is one %d\n", is_snapshot("snapshot.pickle"));
  printf("nowhere %d\n", tensorplay_cuda_snapshot("no/such/folder/snapshot.pickle"));
  print_error("nowhere");
  printf("no path %d\n", tensorplay_cuda_snapshot(NULL));
  printf("history ends %d\n", tensorplay_cuda_record_history(0));

  tensorplay_cuda_free(second, 1000, 0, NULL);
  tensorplay_cuda_free(fourth, 1000, 0, NULL);
  printf("empty %d\n", tensorplay_cuda_empty_cache());
  print_stats(0);
  print_stats(1);
  return 0;
}
