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
  CALLGATE_BUSY = 8,        // the call holds as many files as it may, or as many commands go on
  CALLGATE_CLOSED = 9,      // the call is over
  CALLGATE_WITHHELD = 10,   // the answer holds a credential
  CALLGATE_QUOTA = 11,      // the call would write more than it may, or plan more than there may be
  CALLGATE_CHANGED = 12,    // a file that the call depends on has changed
  CALLGATE_ENDED = 13,      // a command was ended before it was done
  CALLGATE_EXISTS = 14,     // something is there already
  CALLGATE_STATUS = 15,     // the task cannot become that now
};

#define CALLGATE_IMPORT(name) __attribute__((import_module("callgate"), import_name(name)))

// callgate_http makes a request: one line of JSON, a newline, the body.
CALLGATE_IMPORT("http") int32_t callgate_http(const char *request, size_t length, uint32_t *answer_length);

// callgate_fs_read asks for the content of a file.
CALLGATE_IMPORT("fs_read") int32_t callgate_fs_read(const char *path, size_t length, uint32_t *answer_length);

// callgate_fs_list asks for the entries of a directory, as JSON.
CALLGATE_IMPORT("fs_list") int32_t callgate_fs_list(const char *path, size_t length, uint32_t *answer_length);

// callgate_fs_stat asks what a file or directory is, as JSON.
CALLGATE_IMPORT("fs_stat") int32_t callgate_fs_stat(const char *path, size_t length, uint32_t *answer_length);

// callgate_fs_write makes what is at content the content of a file.
CALLGATE_IMPORT("fs_write") int32_t callgate_fs_write(const char *path, size_t length, const void *content, size_t content_length);

// callgate_fs_append adds what is at content to the end of a file.
CALLGATE_IMPORT("fs_append") int32_t callgate_fs_append(const char *path, size_t length, const void *content, size_t content_length);

// callgate_fs_mkdir makes a directory.
CALLGATE_IMPORT("fs_mkdir") int32_t callgate_fs_mkdir(const char *path, size_t length);

// callgate_fs_remove removes a file, a link or an empty directory.
CALLGATE_IMPORT("fs_remove") int32_t callgate_fs_remove(const char *path, size_t length);

// callgate_fs_rename gives a file or directory another name.
CALLGATE_IMPORT("fs_rename") int32_t callgate_fs_rename(const char *path, size_t length, const char *to, size_t to_length);

// callgate_exec runs a command and waits for it: one line of JSON, a newline, its stdin.
CALLGATE_IMPORT("exec") int32_t callgate_exec(const char *request, size_t length, uint32_t *answer_length);

// callgate_exec_start starts a command that goes on after the call: a request as for
// exec. The answer is its id.
CALLGATE_IMPORT("exec_start") int32_t callgate_exec_start(const char *request, size_t length, uint32_t *answer_length);

// callgate_exec_output asks how a started command is, and what it printed since.
CALLGATE_IMPORT("exec_output") int32_t callgate_exec_output(const char *id, size_t length, uint32_t *answer_length);

// callgate_exec_kill ends a started command.
CALLGATE_IMPORT("exec_kill") int32_t callgate_exec_kill(const char *id, size_t length);

// callgate_plan asks for the tasks of the session's plan, as JSON.
CALLGATE_IMPORT("plan") int32_t callgate_plan(uint32_t *answer_length);

// callgate_task_register adds a task, as JSON, to the end of the plan.
CALLGATE_IMPORT("task_register") int32_t callgate_task_register(const char *task, size_t length);

// callgate_task_advance makes a task "active", "done" or "failed".
CALLGATE_IMPORT("task_advance") int32_t callgate_task_advance(const char *id, size_t length, const char *status, size_t status_length);

// callgate_task_replan replaces a task by others, a JSON array.
CALLGATE_IMPORT("task_replan") int32_t callgate_task_replan(const char *id, size_t length, const char *tasks, size_t tasks_length);

// callgate_charge says that the call used so many units more of what policies count by
// that name.
CALLGATE_IMPORT("charge") int32_t callgate_charge(const char *name, size_t length, int64_t units);

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
  case CALLGATE_BUSY: return "too many open files or commands";
  case CALLGATE_CLOSED: return "the call is over";
  case CALLGATE_WITHHELD: return "withheld";
  case CALLGATE_QUOTA: return "more than the call may write or plan";
  case CALLGATE_CHANGED: return "changed since the decision";
  case CALLGATE_ENDED: return "the command was ended";
  case CALLGATE_EXISTS: return "something is there already";
  case CALLGATE_STATUS: return "the task cannot become that now";
  default: return "unknown error";
  }
}

#endif
