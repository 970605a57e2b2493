/* A network's rounds without a network.
 *   rounds IDLE_MIB HOT_MIB WEIGHTS_MIB PASSES ROUNDS REST_S LOAD_S
 * Idle memory is filled once; hot memory too, and read again after each MiB of weights. In each
 * round weights are filled within LOAD_S (as if read from a disk), read PASSES times and given back. Prints each round's number, and its seconds of
 * loading and of reading, as it ends.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static unsigned noise = 1;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *hot;
static size_t hot_size;

static void touch(volatile char *p, size_t size) {
  for (size_t i = 0; i < size; i += 64) (void)p[i];
}

static char *map(size_t size) {
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) exit(4);
  madvise(p, size, MADV_NOHUGEPAGE);
  return p;
}

/* What can't be compressed: zram would make little of zeros. */
static void fill(char *p, size_t size, double seconds) {
  for (size_t i = 0; i < size; i += sizeof noise) {
    if (seconds > 0 && i % MIB == 0) {
      usleep((useconds_t)(seconds * 1e6 * MIB / (double)size));
      touch(hot, hot_size);
    }
    *(unsigned *)(p + i) = noise = noise * 1664525u + 1013904223u;
  }
}

int main(int count, char **words) {
  if (count != 8) return 2;
  size_t idle = MIB * (size_t)atoi(words[1]), weights = MIB * (size_t)atoi(words[3]);
  int passes = atoi(words[4]), rounds = atoi(words[5]);
  double rest = atof(words[6]), load = atof(words[7]);
  hot_size = MIB * (size_t)atoi(words[2]);
  noise = (unsigned)getpid();
  fill(map(idle), idle, 0);
  hot = map(hot_size + 1);
  fill(hot, hot_size, 0);
  for (int round = 0; round < rounds; round++) {
    double began = now();
    char *p = map(weights);
    fill(p, weights, load);
    double loaded = now();
    for (int pass = 0; pass < passes; pass++)
      for (size_t i = 0; i < weights; i += MIB) {
        touch(p + i, MIB);
        touch(hot, hot_size);
      }
    printf("%d %.4f %.4f\n", round, loaded - began, now() - loaded);
    fflush(stdout);
    munmap(p, weights);
    usleep((useconds_t)(rest * 1e6));
  }
  return 0;
}
