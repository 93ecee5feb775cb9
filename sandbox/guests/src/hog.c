// hog: takes memory, a mebibyte at a time, until it gets no more.
#include "guest.h"

int main(void) {
  unsigned mib = 0;
  for (char *p; (p = malloc(1 << 20)) != NULL; mib++) *(volatile char *)p = 1;
  char text[16], *t = text + sizeof text;
  *--t = 0;
  do *--t = (char)('0' + mib % 10);
  while (mib /= 10);
  fail("out of memory, after this many MiB: ", t);
}
