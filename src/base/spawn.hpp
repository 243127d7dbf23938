// SPDX-License-Identifier: Apache-2.0
// Starting a program so that its exit status can be known, whatever the host does with SIGCHLD.
#pragma once

#include <sys/types.h>

#include "base/files.hpp"
#include "base/process.hpp"

namespace codetta::base {

// Above 2, so that moving it to 0, 1 or 2 of the child always makes a copy, which is not close-on-exec.
FileDescriptor above_standard(FileDescriptor fd);

struct Pipe {
  FileDescriptor read_end;  // non-blocking
  FileDescriptor write_end;
};
// Both ends close-on-exec and above 2.
Expected<Pipe> make_pipe();

struct Spawned {
  pid_t pid = 0;          // leader of a process group of its own
  FileDescriptor status;  // where a keeper leaves the program's wait status; invalid when `pid` is the program itself
  Expected<int> kept() const;  // from there, once `pid` has ended; ECHILD if it left none
};

// Starts the program with these standard streams, no other descriptor, default signals. Where this process ignores
// SIGCHLD (or has SA_NOCLDWAIT) the system drops the status of every child: then a keeper is forked, which heeds
// SIGCHLD, starts the program in its own process group, waits for it and passes the status on.
Expected<Spawned> spawn(const ProcessRequest& request, int input, int output, int errors);

}  // namespace codetta::base
