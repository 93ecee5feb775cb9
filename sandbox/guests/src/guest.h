// What the C guests share: whole-file reads, a reader for one string in a JSON
// object, and a buffered writer of JSON. No stdio: printf alone is 60 KB.
#ifndef CALLGATE_GUEST_H
#define CALLGATE_GUEST_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_fd(int fd, const char *s, size_t n) {
  while (n > 0) {
    ssize_t k = write(fd, s, n);
    if (k <= 0) _Exit(1);
    s += k;
    n -= (size_t)k;
  }
}

// fail reports why on stderr and ends the guest.
static _Noreturn void fail(const char *what, const char *why) {
  put_fd(2, what, strlen(what));
  put_fd(2, why, strlen(why));
  put_fd(2, "\n", 1);
  _Exit(1);
}

// read_all reads fd to its end, but no more than max bytes.
static char *read_all(int fd, size_t max, size_t *len) {
  size_t cap = 4096, n = 0;
  char *b = malloc(cap);
  while (b && n < max) {
    if (n == cap) {
      cap = cap * 2;
      char *c = realloc(b, cap);
      if (!c) break;
      b = c;
    }
    size_t want = cap - n;
    if (want > max - n) want = max - n;
    ssize_t k = read(fd, b + n, want);
    if (k < 0) {
      free(b);
      return NULL;
    }
    if (k == 0) break;
    n += (size_t)k;
  }
  *len = n;
  return b;
}

// ---- JSON in ----

typedef struct {
  const char *p, *end;
} json;

static void space(json *j) {
  while (j->p < j->end && strchr(" \t\r\n", *j->p)) j->p++;
}

static int next(json *j, char c) {
  space(j);
  if (j->p < j->end && *j->p == c) {
    j->p++;
    return 1;
  }
  return 0;
}

static int hex4(json *j) {
  int v = 0;
  if (j->end - j->p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int c = *j->p++;
    int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (d < 0) return -1;
    v = v * 16 + d;
  }
  return v;
}

static char *utf8(char *o, int c) {
  if (c < 0x80) {
    *o++ = (char)c;
  } else if (c < 0x800) {
    *o++ = (char)(0xc0 | c >> 6);
    *o++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *o++ = (char)(0xe0 | c >> 12);
    *o++ = (char)(0x80 | (c >> 6 & 63));
    *o++ = (char)(0x80 | (c & 63));
  } else {
    *o++ = (char)(0xf0 | c >> 18);
    *o++ = (char)(0x80 | (c >> 12 & 63));
    *o++ = (char)(0x80 | (c >> 6 & 63));
    *o++ = (char)(0x80 | (c & 63));
  }
  return o;
}

// string reads one string into new memory, which it ends with NUL. A NUL
// inside makes it fail: no path holds one.
static char *string(json *j) {
  if (!next(j, '"')) return NULL;
  char *out = malloc((size_t)(j->end - j->p) + 1), *o = out;
  if (!out) return NULL;
  while (j->p < j->end) {
    int c = (unsigned char)*j->p++;
    if (c == '"') {
      *o = 0;
      return out;
    }
    if (c != '\\') {
      *o++ = (char)c;
      continue;
    }
    if (j->p == j->end) break;
    c = *j->p++;
    const char *at;
    if (c != 'u') {
      static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
      if (!c || !(at = strchr(from, c))) break;
      *o++ = to[at - from];
      continue;
    }
    int v = hex4(j);
    if (v >= 0xd800 && v < 0xdc00 && j->end - j->p > 1 && j->p[0] == '\\' && j->p[1] == 'u') {
      j->p += 2;
      int low = hex4(j);
      if (low < 0xdc00 || low > 0xdfff) break;
      v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    }
    if (v <= 0 || (v >= 0xd800 && v < 0xe000)) break;
    o = utf8(o, v);
  }
  free(out);
  return NULL;
}

// skip passes over one value. The host has checked the syntax and the depth.
static int skip(json *j) {
  int depth = 0;
  do {
    space(j);
    if (j->p == j->end) return 0;
    if (*j->p == '"') {
      for (j->p++; j->p < j->end && *j->p != '"'; j->p++)
        if (*j->p == '\\') j->p++;
      if (j->p >= j->end) return 0;
      j->p++;
    } else if (*j->p == '{' || *j->p == '[') {
      depth++;
      j->p++;
    } else if (*j->p == '}' || *j->p == ']') {
      depth--;
      j->p++;
    } else if (*j->p == ',' || *j->p == ':') {
      j->p++;
    } else {
      while (j->p < j->end && !strchr(",]}", *j->p)) j->p++;
    }
  } while (depth > 0);
  return 1;
}

// member moves j to the value of the object's member. It returns 0 if there is
// none and -1 if this is no object.
static int member(json *j, const char *name) {
  if (!next(j, '{')) return -1;
  while (!next(j, '}')) {
    char *key = string(j);
    if (!key || !next(j, ':')) return -1;
    int found = strcmp(key, name) == 0;
    free(key);
    if (found) return 1;
    if (!skip(j)) return -1;
    next(j, ',');
  }
  return 0;
}

// optional returns the string member of the object on stdin, NULL if there is
// none, or ends the guest.
static char *optional(const char *name) {
  static char *text;
  static size_t len;
  if (!text && !(text = read_all(0, 2 << 20, &len))) fail("cannot read the arguments", "");
  json j = {text, text + len};
  int found = member(&j, name);
  if (found < 0) fail("the arguments are malformed", "");
  if (!found) return NULL;
  char *value = string(&j);
  if (!value) fail("not a usable string: ", name);
  return value;
}

// argument is optional for members that must be there.
static char *argument(const char *name) {
  char *value = optional(name);
  if (!value) fail("the arguments lack: ", name);
  return value;
}

// ---- JSON out ----

static char outbuf[8192];
static size_t outlen;

static void flush(void) {
  put_fd(1, outbuf, outlen);
  outlen = 0;
}

static void put(const char *s, size_t n) {
  while (n > 0) {
    if (outlen == sizeof outbuf) flush();
    size_t k = sizeof outbuf - outlen;
    if (k > n) k = n;
    memcpy(outbuf + outlen, s, k);
    outlen += k;
    s += k;
    n -= k;
  }
}

static void puts_json(const char *s) { put(s, strlen(s)); }

// sequence returns the length of the UTF-8 sequence at s, or 0 if there is none.
static size_t sequence(const unsigned char *s, size_t n) {
  size_t k = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  if (k == 0 || k > n) return 0;
  for (size_t i = 1; i < k; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0;  // overlong
  if (s[0] == 0xed && s[1] > 0x9f) return 0;  // surrogate
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;  // overlong
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0;  // beyond U+10FFFF
  return k;
}

// quote writes s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
static void quote(const char *text, size_t n) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *s = (const unsigned char *)text;
  put("\"", 1);
  while (n > 0) {
    size_t k = sequence(s, n);
    if (k == 0) {
      put("\xef\xbf\xbd", 3);
      k = 1;
    } else if (*s == '"' || *s == '\\') {
      char e[2] = {'\\', (char)*s};
      put(e, 2);
    } else if (*s < 0x20) {
      static const char short_for[] = "\b\t\n\f\r", names[] = "btnfr";
      const char *at = *s ? strchr(short_for, *s) : NULL;
      if (at) {
        char e[2] = {'\\', names[at - short_for]};
        put(e, 2);
      } else {
        char e[6] = {'\\', 'u', '0', '0', digits[*s >> 4], digits[*s & 15]};
        put(e, 6);
      }
    } else {
      put((const char *)s, k);
    }
    s += k;
    n -= k;
  }
  put("\"", 1);
}

// whole returns how many of the first n bytes of text to keep so that no
// character at the end is cut in two.
static size_t whole(const char *text, size_t n) {
  size_t back = 0;
  while (back < 3 && back < n && (text[n - 1 - back] & 0xc0) == 0x80) back++;
  if (back < n && (text[n - 1 - back] & 0xc0) == 0xc0 && sequence((const unsigned char *)text + n - 1 - back, back + 1) == 0) n -= back + 1;
  return n;
}

#endif
