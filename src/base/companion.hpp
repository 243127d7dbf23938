// SPDX-License-Identifier: Apache-2.0
// A program that answers: frames of bytes go to and fro over one socket, which is its standard input and output.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/isolated.hpp"
#include "base/spawn.hpp"

namespace codetta::base {

// Belongs to one thread at a time. The program ends with it, whatever it does.
class Companion {
 public:
  // `request` names program, arguments and environment; what it writes to its standard errors is dropped. Errors: those
  // of run_process.
  static Expected<Companion> start(const ProcessRequest& request);
  Companion(Companion&& other) noexcept
      : spawned_(std::exchange(other.spawned_, {})), socket_(std::move(other.socket_)) {}
  Companion& operator=(Companion&&) = delete;
  ~Companion() { end(); }

  // Sends a frame and waits for the one that answers it. After any end but Finished the program is gone.
  std::pair<IsolatedOutcome, std::string> ask(std::string_view frame, const IsolatedLimits& limits);
  // The same in two parts, for a short frame (below 64 KiB), so that other work can be done meanwhile.
  void post(std::string_view frame);
  std::pair<IsolatedOutcome, std::string> answer(const IsolatedLimits& limits);
  [[nodiscard]] bool alive() const { return spawned_.pid != 0; }

 private:
  Companion(Spawned spawned, FileDescriptor socket) : spawned_(std::move(spawned)), socket_(std::move(socket)) {}
  struct Exchange;
  std::pair<IsolatedOutcome, std::string> complete(Exchange& exchange, const IsolatedLimits& limits);
  int end();  // kills it; its wait status if it had ended by itself, else 0
  Spawned spawned_;
  FileDescriptor socket_;
};

// The program's side of the socket, which blocks. False at its end, and for a frame that memory does not hold.
bool read_frame(int socket, std::string& frame);
bool write_frame(int socket, std::string_view frame);
// Moves the socket out of the way of all who write to the standard output, which goes where the standard errors go.
FileDescriptor keep_for_frames(int socket);
// This process ends with the thread that started it, and leaves no core file when it crashes.
void be_companion();

}  // namespace codetta::base
