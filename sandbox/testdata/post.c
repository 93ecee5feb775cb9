// post: a command that posts its arguments and prints the body of the answer.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callgate.h"

static const char head[] =
    "{\"method\":\"POST\",\"url\":\"https://api.example.com/v1/notes\","
    "\"headers\":{\"Content-Type\":\"application/json\"},\"secret\":\"notes\"}\n";

int main(void) {
  static char request[sizeof head - 1 + (1 << 20)]; // arguments have at most 1 MiB
  size_t n = sizeof head - 1;
  memcpy(request, head, n);
  for (ssize_t k; n < sizeof request && (k = read(0, request + n, sizeof request - n)) > 0;) n += (size_t)k;

  uint32_t length;
  int32_t error = callgate_http(request, n, &length);
  if (error != CALLGATE_OK) {
    const char *text = callgate_error_text(error);
    write(2, text, strlen(text)); // stderr is the log of the call
    return 1;
  }
  char *answer = malloc(length);
  if (!answer || callgate_answer(answer, length) != CALLGATE_OK) return 1;
  char *body = memchr(answer, '\n', length); // the line before it is the head
  if (!body) return 1;
  for (body++; body < answer + length;) {
    ssize_t k = write(1, body, (size_t)(answer + length - body));
    if (k < 0) return 1;
    body += k;
  }
  return 0;
}
