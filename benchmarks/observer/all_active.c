/* The smallest program that is killed by its memory limit although its swap is free.
 *   all_active MIB MORE_MIB [REST_S [FILE_MIB FILE]]
 * process_vm_readv() of one's own page marks it accessed; twice, and it is on the active list.
 * Touches MIB so, rests, then MORE_MIB page by page. FILE_MIB of FILE are mapped and read first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096

static void mark_active(char *page) {
  char byte;
  struct iovec into = {&byte, 1}, from = {page, 1};
  for (int i = 0; i < 2; i++)
    if (process_vm_readv(getpid(), &into, 1, &from, 1, 0) != 1) exit(3);
}

static void map_file(size_t size, const char *path) {
  int fd = open(path, O_RDONLY);
  volatile char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (fd < 0 || p == MAP_FAILED) exit(4);
  for (size_t i = 0; i < size; i += PAGE) (void)p[i];
}

int main(int count, char **words) {
  size_t size = (size_t)atoi(words[1]) << 20, more = (size_t)atoi(words[2]) << 20;
  if (count > 5) map_file((size_t)atoi(words[4]) << 20, words[5]);
  char *p = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return 4;
  madvise(p, size + more, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < size; i += PAGE) p[i] = 1;
  if (count > 3) usleep((useconds_t)(atof(words[3]) * 1e6));
  for (size_t i = 0; i < size; i += PAGE) mark_active(p + i);
  for (size_t i = size; i < size + more; i += PAGE) {
    p[i] = 1;
    mark_active(p + i);
  }
  return 0;
}
