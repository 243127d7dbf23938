// SPDX-License-Identifier: Apache-2.0
// What both differential runners are started with, and their jobs: each is a process, so that a crash is a failure with
// a name, too.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "differential/slices.hpp"
#include "support/slice.hpp"

namespace codetta::test {

using Clock = std::chrono::steady_clock;
inline constexpr int max_jobs = 256;

struct JobOptions {
  int64_t count = 0, first = 0, at_least = 0;
  uint64_t seed = 1;
  int jobs = 1;
  double seconds = 0;  // 0: no limit; else the end, once at_least cases are done

  // --count, --seed, --slice, --first, --at-least, --jobs, --seconds. False: another name.
  bool take(const std::string& name, const char* value) {
    if (name == "--count") {
      count = std::atoll(value);
    } else if (name == "--seed") {
      seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--slice") {
      seed = slice_of(value);
      fmt::print("slice of {}\n", value);
    } else if (name == "--first") {
      first = std::atoll(value);
    } else if (name == "--at-least") {
      at_least = std::atoll(value);
    } else if (name == "--jobs") {
      jobs = std::clamp(std::atoi(value), 1, max_jobs);
    } else if (name == "--seconds") {
      seconds = std::atof(value);
    } else {
      return false;
    }
    return true;
  }
};

// Seen by all processes.
struct SharedProgress {
  std::atomic<int64_t> next{0};            // case that a job takes
  std::atomic<int64_t> running[max_jobs];  // what each job is at, or -1
  std::atomic<int64_t> done{0};

  // Cases [begin, end), at most `most` together. False: there are no more, or the time is up.
  bool take(const JobOptions& options, Clock::time_point start, int64_t most, int64_t& begin, int64_t& end) {
    begin = next.fetch_add(most);
    end = std::min(begin + most, options.count);
    const bool late =
        options.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options.seconds;
    return begin < options.count && !(late && begin >= options.at_least);
  }
};

// Null, said on stderr, where the system has no memory for it.
inline SharedProgress* make_shared_progress() {
  void* memory = ::mmap(nullptr, sizeof(SharedProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return nullptr;
  }
  return new (memory) SharedProgress;
}

// Runs `work` of each job in a process of its own and adds up what they send. `line_of` is the line that runs again
// what a job was at, an index of SharedProgress::running.
template <class Counts>
Counts run_jobs(int count, SharedProgress& shared, const std::function<Counts(int job)>& work,
                const std::function<std::string(int64_t running)>& line_of) {
  Counts all;
  struct Job {
    pid_t pid = 0;
    int from = -1;
  };
  std::vector<Job> jobs;
  for (int j = 0; j < count; ++j) {
    shared.running[j] = -1;
    int ends[2];
    if (::pipe(ends) != 0) break;
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      const std::string text = work(j).encode();
      const bool sent = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      ::_exit(sent ? 0 : 1);
    }
    ::close(ends[1]);
    if (pid < 0) {
      ::close(ends[0]);
      break;
    }
    jobs.push_back({pid, ends[0]});
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(jobs[j].from, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    ::close(jobs[j].from);
    int status = 0;
    ::waitpid(jobs[j].pid, &status, 0);
    if (status != 0) {
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;  // by the machine
      ++all.failed;
      put(fmt::format("{} {}\nits process ended with status {:#x}\n", killed ? "UNFINISHED" : "MISMATCH",
                      line_of(shared.running[j]), status));
      continue;
    }
    all.add(Counts::decode(text));
  }
  if (jobs.empty()) ++all.failed;
  return all;
}

}  // namespace codetta::test
