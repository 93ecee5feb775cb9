// The functions of the host that guests import from the module "callgate", as
// docs/guest-abi.md describes them. Every one returns an error number.
#ifndef CALLGATE_H
#define CALLGATE_H

#include <stddef.h>
#include <stdint.h>

enum callgate_error {
  CALLGATE_OK = 0,
  CALLGATE_FAULT = 1,       // a pointer or length leads out of memory
  CALLGATE_MALFORMED = 2,   // no such request can be made
  CALLGATE_NOT_GRANTED = 3, // the grant of this call does not give it
  CALLGATE_NOT_FOUND = 4,   // no such file or directory; no answer to take
  CALLGATE_TOO_LARGE = 5,   // more bytes than the grant or the memory allows
  CALLGATE_FAILED = 6,      // the network, the other side or the disk failed
  CALLGATE_REDIRECT = 7,    // the server sent us elsewhere, which is not followed
  CALLGATE_BUSY = 8,        // the call holds as many files as it may
  CALLGATE_CLOSED = 9,      // the call is over
  CALLGATE_WITHHELD = 10,   // the answer holds a credential
};

#define CALLGATE_IMPORT(name) __attribute__((import_module("callgate"), import_name(name)))

// callgate_http makes a request: one line of JSON, a newline, the body.
CALLGATE_IMPORT("http") int32_t callgate_http(const char *request, size_t length, uint32_t *answer_length);

// callgate_fs_read asks for the content of a file.
CALLGATE_IMPORT("fs_read") int32_t callgate_fs_read(const char *path, size_t length, uint32_t *answer_length);

// callgate_fs_list asks for the entries of a directory, as JSON.
CALLGATE_IMPORT("fs_list") int32_t callgate_fs_list(const char *path, size_t length, uint32_t *answer_length);

// callgate_answer takes the answer to the request before. The length must be
// the one that came with it.
CALLGATE_IMPORT("answer") int32_t callgate_answer(char *to, size_t length);

// callgate_log adds a line to the log of the call.
CALLGATE_IMPORT("log") int32_t callgate_log(const char *line, size_t length);

// callgate_error_text says what an error number means.
static const char *callgate_error_text(int32_t error) {
  switch (error) {
  case CALLGATE_OK: return "ok";
  case CALLGATE_FAULT: return "bad pointer";
  case CALLGATE_MALFORMED: return "malformed request";
  case CALLGATE_NOT_GRANTED: return "not granted";
  case CALLGATE_NOT_FOUND: return "not found";
  case CALLGATE_TOO_LARGE: return "too large";
  case CALLGATE_FAILED: return "failed";
  case CALLGATE_REDIRECT: return "redirect";
  case CALLGATE_BUSY: return "too many open files";
  case CALLGATE_CLOSED: return "the call is over";
  case CALLGATE_WITHHELD: return "withheld";
  default: return "unknown error";
  }
}

#endif
