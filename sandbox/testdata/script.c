// script: a command that does to files what its arguments say, {"s":"..."}, as no
// C library would. Steps are separated by ';' and begin with a letter; their words
// are separated by blanks. Prints for each step its error number, what it found, and
// a semicolon. A path of @N is N times the letter x.
#include <string.h>
#include <wasi/api.h>

static char in[1 << 20], out[1 << 20], big[1 << 16], *word[8];
static size_t outs;

static void put(const void *b, size_t n) {
  if (n > sizeof out - outs) n = sizeof out - outs;
  memcpy(out + outs, b, n);
  outs += n;
}

static void number(uint64_t v) {
  char b[20];
  size_t at = sizeof b;
  do b[--at] = (char)('0' + v % 10); while (v /= 10);
  put(b + at, sizeof b - at);
}

static uint64_t value(const char *s) {
  uint64_t v = 0;
  while (*s >= '0' && *s <= '9') v = v * 10 + (uint64_t)(*s++ - '0');
  return v;
}

static uint32_t fd(int i) { return (uint32_t)value(word[i]); }

static const char *path(int i) {
  if (word[i][0] != '@') return word[i];
  size_t n = value(word[i] + 1);
  if (n >= sizeof big) n = sizeof big - 1;
  memset(big, 'x', n);
  big[n] = 0;
  return big;
}

static __wasi_errno_t do_open(__wasi_fd_t *opened) {
  __wasi_oflags_t o = 0;
  __wasi_fdflags_t flags = 0;
  __wasi_lookupflags_t look = __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW;
  __wasi_rights_t all = ((__wasi_rights_t)1 << 30) - 1;
  __wasi_rights_t base = all & ~(__wasi_rights_t)(__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_WRITE);
  for (const char *c = word[3]; *c; c++) switch (*c) {
    case 'r': base |= __WASI_RIGHTS_FD_READ; break;
    case 'w': base |= __WASI_RIGHTS_FD_WRITE; break;
    case 'a': flags |= __WASI_FDFLAGS_APPEND; break;
    case 'c': o |= __WASI_OFLAGS_CREAT; break;
    case 'x': o |= __WASI_OFLAGS_EXCL; break;
    case 't': o |= __WASI_OFLAGS_TRUNC; break;
    case 'd': o |= __WASI_OFLAGS_DIRECTORY; break;
    case 'n': look = 0; break;
  }
  return __wasi_path_open(fd(1), look, path(2), o, base, all, flags, opened);
}

// entries counts a directory's entries, the two dots included.
static __wasi_errno_t entries(uint64_t *n) {
  static uint8_t buf[4096];
  __wasi_dircookie_t cookie = 0;
  *n = 0;
  for (;;) {
    __wasi_size_t used;
    __wasi_errno_t e = __wasi_fd_readdir(fd(1), buf, sizeof buf, cookie, &used);
    if (e) return e;
    for (size_t at = 0; at + sizeof(__wasi_dirent_t) <= used;) {
      __wasi_dirent_t d;
      memcpy(&d, buf + at, sizeof d);
      at += sizeof d + d.d_namlen;
      if (at > used) break;
      ++*n;
      cookie = d.d_next;
    }
    if (used < sizeof buf) return 0;
  }
}

static void step(void) {
  static uint8_t buf[8192];
  __wasi_size_t n = 0;
  __wasi_fd_t opened = 0;
  uint64_t v = 0;
  __wasi_filestat_t st;
  __wasi_errno_t e = __WASI_ERRNO_NOSYS;
  __wasi_iovec_t to = {buf, sizeof buf};
  switch (word[0][0]) {
  case 'o': e = do_open(&opened), v = (uint64_t)opened; break;
  case 'c': e = __wasi_fd_close(fd(1)); break;
  case 'r': e = __wasi_fd_read(fd(1), &to, 1, &n); break;
  case 'w': {
    __wasi_ciovec_t from = {(uint8_t *)word[2], strlen(word[2])};
    e = __wasi_fd_write(fd(1), &from, 1, &n), v = n, n = 0;
    break;
  }
  case 't': e = __wasi_fd_filestat_set_size(fd(1), value(word[2])); break;
  case 'm': e = __wasi_path_create_directory(fd(1), path(2)); break;
  case 'u': e = __wasi_path_unlink_file(fd(1), path(2)); break;
  case 'd': e = __wasi_path_remove_directory(fd(1), path(2)); break;
  case 'n': e = __wasi_path_rename(fd(1), path(2), fd(3), path(4)); break;
  case 'h': e = __wasi_path_link(fd(1), 0, path(2), fd(3), path(4)); break;
  case 's': e = __wasi_path_symlink(word[3], fd(1), path(2)); break;
  case 'k': e = __wasi_path_readlink(fd(1), path(2), buf, sizeof buf, &n); break;
  case 'i': e = __wasi_path_filestat_set_times(fd(1), 1, path(2), 1, 1, 5); break;
  case 'l': e = entries(&v); break;
  case 'S':
    e = __wasi_path_filestat_get(fd(1), 1, path(2), &st);
    if (!e) v = st.size;
    break;
  }
  number(e);
  if (!e && n) put(":", 1), put(buf, n);
  if (!e && v) put(":", 1), number(v);
  put(";", 1);
}

int main(void) {
  size_t n = 0;
  for (;;) {
    __wasi_iovec_t to = {(uint8_t *)in + n, sizeof in - 1 - n};
    __wasi_size_t k;
    if (__wasi_fd_read(0, &to, 1, &k) || k == 0) break;
    n += k;
  }
  if (n < 8) return 1;
  in[n - 2] = ';'; // what was the last quote
  in[n - 1] = 0;
  int words = 0;
  char *at = in + 6;
  word[words++] = at;
  for (; *at; at++) {
    if (*at != ' ' && *at != ';') continue;
    char c = *at;
    *at = 0;
    if (c == ' ' && words < 8) word[words++] = at + 1;
    if (c == ';') {
      while (words < 8) word[words++] = "";
      step();
      words = 0;
      word[words++] = at + 1;
    }
  }
  for (size_t done = 0; done < outs;) {
    __wasi_ciovec_t from = {(uint8_t *)out + done, outs - done};
    __wasi_size_t k;
    if (__wasi_fd_write(1, &from, 1, &k)) return 1;
    done += k;
  }
  return 0;
}
