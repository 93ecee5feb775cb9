// read-file: {"path": "/docs/x.txt"} gives {"text": "..."}, the first 256 KiB
// of the file. "truncated": true says that there is more.
#include <fcntl.h>

#include "guest.h"

enum { LIMIT = 256 << 10 };

int main(void) {
  char *path = argument("path");
  int fd = open(path, O_RDONLY);
  if (fd < 0) fail("cannot open: ", strerror(errno));
  size_t n;
  char *text = read_all(fd, LIMIT + 1, &n);
  if (!text) fail("cannot read: ", strerror(errno));
  int truncated = n > LIMIT;
  if (truncated) n = whole(text, LIMIT);
  puts_json("{\"text\":");
  quote(text, n);
  puts_json(truncated ? ",\"truncated\":true}" : "}");
  flush();
  return 0;
}
