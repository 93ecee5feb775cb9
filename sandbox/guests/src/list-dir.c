// list-dir: {"path": "/docs"} gives {"entries": [{"name": ..., "type": ...}]},
// sorted by name, at most 1,000. "truncated": true says that there are more.
#include <dirent.h>

#include "guest.h"

enum { LIMIT = 1000 };

typedef struct {
  char *name;
  unsigned char type;
} entry;

static int by_name(const void *a, const void *b) { return strcmp(((const entry *)a)->name, ((const entry *)b)->name); }

int main(void) {
  static entry all[LIMIT];
  char *path = argument("path");
  DIR *dir = opendir(path);
  if (!dir) fail("cannot list: ", strerror(errno));
  size_t n = 0;
  int truncated = 0;
  struct dirent *e;
  for (errno = 0; (e = readdir(dir)) != NULL; errno = 0) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (n == LIMIT) {
      truncated = 1;
      break;
    }
    all[n].name = strdup(e->d_name);
    all[n].type = e->d_type;
    if (!all[n].name) fail("cannot list: ", strerror(ENOMEM));
    n++;
  }
  if (errno) fail("cannot list: ", strerror(errno));
  qsort(all, n, sizeof *all, by_name);
  puts_json("{\"entries\":[");
  for (size_t i = 0; i < n; i++) {
    puts_json(i ? ",{\"name\":" : "{\"name\":");
    quote(all[i].name, strlen(all[i].name));
    unsigned char t = all[i].type;
    puts_json(t == DT_REG ? ",\"type\":\"file\"}" : t == DT_DIR ? ",\"type\":\"directory\"}" : t == DT_LNK ? ",\"type\":\"link\"}" : ",\"type\":\"other\"}");
  }
  puts_json(truncated ? "],\"truncated\":true}" : "]}");
  flush();
  return 0;
}
