// fetch: {"url": "https://..."} gives {"status": 200, "text": "..."}, the first
// 64 KiB of what a GET answers. "truncated": true says that there is more. An
// optional "secret" names the credential that the host adds to the request.
#include "callgate.h"
#include "guest.h"

enum { LIMIT = 64 << 10 };

// append_string writes s as a JSON string, which takes at most six bytes for
// one and two for the quotes. The host has seen that s is UTF-8.
static char *append_string(char *o, const char *s) {
  static const char digits[] = "0123456789abcdef";
  *o++ = '"';
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c < 0x20) {
      memcpy(o, "\\u00", 4);
      o[4] = digits[c >> 4];
      o[5] = digits[c & 15];
      o += 6;
      continue;
    }
    if (c == '"' || c == '\\') *o++ = '\\';
    *o++ = (char)c;
  }
  *o++ = '"';
  return o;
}

static char *append(char *o, const char *s) {
  size_t n = strlen(s);
  memcpy(o, s, n);
  return o + n;
}

static void check(int32_t error) {
  if (error != CALLGATE_OK) fail("cannot fetch: ", callgate_error_text(error));
}

int main(void) {
  const char *url = argument("url"), *secret = optional("secret");
  char *request = malloc(6 * (strlen(url) + (secret ? strlen(secret) : 0)) + 64), *o = request;
  if (!request) fail("cannot fetch: ", "out of memory");
  o = append_string(append(o, "{\"method\":\"GET\",\"url\":"), url);
  if (secret) o = append_string(append(o, ",\"secret\":"), secret);
  o = append(o, "}\n");

  uint32_t len;
  check(callgate_http(request, (size_t)(o - request), &len));
  free(request);
  char *answer = malloc(len);
  if (!answer) fail("cannot fetch: ", "out of memory");
  check(callgate_answer(answer, len));

  char *line = memchr(answer, '\n', len);
  json j = {answer, line};
  if (!line || member(&j, "status") != 1) fail("cannot fetch: ", "the host's answer is malformed");
  space(&j);
  const char *status = j.p;
  while (j.p < j.end && *j.p >= '0' && *j.p <= '9') j.p++;

  const char *text = line + 1;
  size_t n = (size_t)(answer + len - text);
  int truncated = n > LIMIT;
  if (truncated) n = whole(text, LIMIT);
  puts_json("{\"status\":");
  put(status, (size_t)(j.p - status));
  puts_json(",\"text\":");
  quote(text, n);
  puts_json(truncated ? ",\"truncated\":true}" : "}");
  flush();
  return 0;
}
