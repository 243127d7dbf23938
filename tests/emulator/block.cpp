// SPDX-License-Identifier: Apache-2.0
#include "emulator/block.hpp"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "emulator/faults.hpp"
#include "emulator/fibers.hpp"

namespace codetta::emulator {
namespace {

constexpr size_t named_barriers = 16, most_words = 8, most_groups = 64;

struct Random {
  uint64_t state;
  uint64_t operator()() {
    state += 0x9E3779B97F4A7C15u;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
};

std::string text_of(Site site) {
  const std::string_view file = site.file == nullptr ? "?" : site.file;
  const size_t slash = file.rfind('/');
  return fmt::format("{}:{}", slash == std::string_view::npos ? file : file.substr(slash + 1), site.line);
}

// "0-31, 40"
std::string text_of(const std::vector<Word>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (end > i + 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

struct Fiber : Thread {
  Context context;
  enum class State : uint8_t { Ready, Waiting, Ended } state = State::Ready;
  struct Copy {
    void* to;
    const void* from;
    Word bytes, valid;
  };
  std::vector<std::vector<Copy>> copies;  // groups that were not waited for, then the open one
  Site site{};                            // where it waits
  std::string_view why;                   // at what
};

struct Barrier {
  Word count = 0, arrived = 0;
  bool whole = false;  // of all threads of the block
  Site first{};
  std::vector<Word> waiting;
};

// Lanes of one warp that exchange values under one mask.
struct Group {
  Bits mask = 0, arrived = 0;
  Word kind = 0, words = 0;
  int phase = 0;
  std::unique_ptr<Bits[]> values;  // [phase][lane][word]
};

// The variables of an object's threads, of this thread of the host: all its shared memory. They must have been used.
std::span<unsigned char> variables_of(const void* function) {
  struct Search {
    uintptr_t function;
    std::span<unsigned char> found;
  } search{reinterpret_cast<uintptr_t>(function), {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        bool holds = false;
        const ElfW(Phdr)* variables = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          holds =
              holds || (part.p_type == PT_LOAD && wanted.function >= begin && wanted.function < begin + part.p_memsz);
          if (part.p_type == PT_TLS) variables = &part;
        }
        if (!holds) return 0;
        if (variables != nullptr && info->dlpi_tls_data != nullptr)
          wanted.found = {static_cast<unsigned char*>(info->dlpi_tls_data), variables->p_memsz};
        return 1;
      },
      &search);
  return search.found;
}

// What a kernel read as memory that nobody writes while it runs. A device may read it before any of the kernel's writes
// or after them: at the end it must be as it was.
class Constants {
 public:
  void clear() {
    reads_.clear();
    recent_.assign(1 << 14, Read{});
  }
  void add(const void* from, Word bytes, Site site) {
    Read read{from, bytes, site, {}};
    std::memcpy(read.value, from, bytes);
    const auto address = reinterpret_cast<uintptr_t>(from);
    Read& known = recent_[(address ^ address >> 14) / 2 % recent_.size()];
    if (known.from == from && known.bytes == bytes && std::memcmp(known.value, read.value, bytes) == 0) return;
    known = read;
    reads_.push_back(read);
  }
  // The message of the first that was written; "" where none was.
  [[nodiscard]] std::string changed() const {
    for (const Read& read : reads_) {
      if (std::memcmp(read.value, read.from, read.bytes) != 0)
        return fmt::format("memory that was read as constant was written, {} bytes at {}, read at {}", read.bytes,
                           read.from, text_of(read.site));
    }
    return "";
  }

 private:
  struct Read {
    const void* from = nullptr;
    Word bytes = 0;
    Site site{};
    unsigned char value[16] = {};
  };
  std::vector<Read> reads_, recent_;  // recent_: by address, so that most are kept once
};

struct Runner {
  Machine machine{};
  Constants constants;
  Stacks stacks;
  Context host;
  std::vector<Fiber> fibers;
  std::vector<Word> ready, next;
  Barrier barriers[named_barriers];
  std::vector<std::vector<Group>> groups;  // by warp
  Random random{0};
  const Kernel* kernel = nullptr;
  std::span<unsigned char> shared;
  const void* const* parameters = nullptr;
  Word running = 0, lanes = 32;
  bool failed = false, copies_at_once = false;
  std::string failure;

  std::optional<std::string> run(const Kernel& its_kernel, const Grid& grid, const void* const* its_parameters);
  bool run_block(const Grid& grid, Index block);
  void wait(std::string_view why, Site site);
  void wake(Word index) {
    fibers[index].state = Fiber::State::Ready;
    next.push_back(index);
  }
  [[noreturn]] void fail(std::string text);
  void meet(Word id, Word count, Site site, bool waits);
  const Bits* exchange(Bits mask, Word kind, const Bits* values, Word words, Site site);
  void land(size_t count);
  [[nodiscard]] std::string standstill() const;
};

Runner& runner() {
  thread_local std::unique_ptr<Runner> the_runner = std::make_unique<Runner>();
  return *the_runner;
}

void begin_fiber() {
  Runner& r = runner();
  arrived(r.host);
  r.kernel->run(r.parameters);
  Fiber& fiber = r.fibers[r.running];
  fiber.state = Fiber::State::Ended;
  change(fiber.context, r.host, true);
}

void end_at_fault() { runner().fail(fault_text()); }

void call_barrier(Word id, Word count, Site site) { runner().meet(id, count, site, true); }
void call_arrive(Word id, Word count, Site site) { runner().meet(id, count, site, false); }
const Bits* call_exchange(Bits mask, Word kind, const Bits* values, Word words, Site site) {
  return runner().exchange(mask, kind, values, words, site);
}
void call_fail(const char* what, Bits number, Site site) {
  runner().fail(fmt::format("{} {:#x}, at {}", what, number, text_of(site)));
}

void call_read_constant(const void* from, Word bytes, Site site) { runner().constants.add(from, bytes, site); }

void call_update(const void* word, Site site) {
  if (is_of_host(word))
    runner().fail(
        fmt::format("an atomic update of the host's memory, which not every device can, at {}", text_of(site)));
}

void call_copy_async(void* to, const void* from, Word bytes, Word valid) {
  Runner& r = runner();
  auto& copies = r.fibers[r.running].copies;
  if (copies.empty()) copies.emplace_back();
  copies.back().push_back({to, from, bytes, valid});
}
void call_copy_commit() {
  Runner& r = runner();
  auto& copies = r.fibers[r.running].copies;
  if (copies.empty()) copies.emplace_back();
  copies.emplace_back();
  // Sometimes they are there at once, and what is in their way is overwritten.
  if (r.copies_at_once) r.land(copies.size() - 1);
}
void call_copy_wait(Word groups) {
  Runner& r = runner();
  const auto& copies = r.fibers[r.running].copies;
  if (copies.size() > groups + 1) r.land(copies.size() - 1 - groups);
}

// The oldest groups of the thread that runs.
void Runner::land(size_t count) {
  auto& copies = fibers[running].copies;
  for (size_t i = 0; i < count; ++i) {
    for (const Fiber::Copy& copy : copies[i]) {
      std::memcpy(copy.to, copy.from, copy.valid);
      std::memset(static_cast<char*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
    }
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<ptrdiff_t>(count));
}

void Runner::wait(std::string_view why, Site site) {
  Fiber& fiber = fibers[running];
  fiber.state = Fiber::State::Waiting;
  fiber.why = why;
  fiber.site = site;
  change(fiber.context, host);
}

void Runner::fail(std::string text) {
  const Fiber& fiber = fibers[running];
  failure =
      fmt::format("block ({}, {}, {}), thread {}: {}", fiber.block.x, fiber.block.y, fiber.block.z, fiber.linear, text);
  text = std::string();  // nobody comes back to end its life
  failed = true;
  change(fibers[running].context, host, true);
  __builtin_unreachable();
}

void Runner::meet(Word id, Word count, Site site, bool waits) {
  const auto threads = static_cast<Word>(fibers.size());
  const bool whole = count == 0;
  if (whole) count = threads;
  if (id >= named_barriers) fail(fmt::format("there is no barrier {}, at {}", id, text_of(site)));
  // Of whole waves, or of a block that is less than one.
  if (count > threads || (!whole && count != threads && count % lanes != 0))
    fail(fmt::format("barrier {} can't be of {} threads, at {}", id, count, text_of(site)));
  Barrier& barrier = barriers[id];
  if (barrier.arrived == 0) {
    barrier.count = count;
    barrier.whole = whole;
    barrier.first = site;
  } else if (barrier.count != count) {
    fail(fmt::format("barrier {} is of {} threads at {} and of {} at {}", id, barrier.count, text_of(barrier.first),
                     count, text_of(site)));
  } else if (whole && barrier.whole && (barrier.first.line != site.line || barrier.first.file != site.file)) {
    fail(fmt::format("threads of one block are at different barriers: at {} and at {}", text_of(barrier.first),
                     text_of(site)));
  }
  ++barrier.arrived;
  if (barrier.arrived < barrier.count) {
    if (!waits) return;
    barrier.waiting.push_back(running);
    return wait("a barrier", site);
  }
  for (const Word index : barrier.waiting) wake(index);
  barrier.waiting.clear();
  barrier.arrived = 0;
}

const Bits* Runner::exchange(Bits mask, Word kind, const Bits* values, Word words, Site site) {
  Fiber& fiber = fibers[running];
  const Word warp = fiber.linear / lanes, lane = fiber.lane;
  const auto in_warp = std::min<Word>(lanes, static_cast<Word>(fibers.size()) - warp * lanes);
  if (in_warp < 64) mask &= (Bits{1} << in_warp) - 1;
  if ((mask >> lane & 1) == 0)
    fail(fmt::format("lane {} is none of the mask {:#x} that it names, at {}", lane, mask, text_of(site)));
  std::vector<Group>& all = groups[warp];
  auto at = std::find_if(all.begin(), all.end(), [&](const Group& g) { return g.mask == mask; });
  if (at == all.end()) {
    if (all.size() == most_groups) fail("lanes of a warp exchange values under more masks than are kept");
    at = all.insert(at, Group{});
    at->mask = mask;
    at->values = std::make_unique<Bits[]>(2 * max_lanes * most_words);
  }
  // Groups move when one is added, their values don't.
  const auto index = static_cast<size_t>(at - all.begin());
  if (at->arrived == 0) {
    at->kind = kind;
    at->words = words;
  } else if (at->kind != kind || at->words != words) {
    fail(fmt::format("lanes of a warp are at different operations, one of them at {}", text_of(site)));
  }
  Bits* const slot = at->values.get() + static_cast<size_t>(at->phase) * max_lanes * most_words;
  std::memcpy(slot + lane * words, values, words * sizeof(Bits));
  at->arrived |= Bits{1} << lane;
  if (at->arrived != mask) {
    wait("the other lanes", site);
    return slot;
  }
  Group& group = all[index];
  group.arrived = 0;
  group.phase ^= 1;
  for (Word l = 0; l < in_warp; ++l) {
    if (l != lane && (mask >> l & 1) != 0) wake(warp * lanes + l);
  }
  return slot;
}

std::string Runner::standstill() const {
  std::map<std::string, std::vector<Word>> places;
  for (const Fiber& fiber : fibers) {
    places[fiber.state == Fiber::State::Ended ? std::string("have ended")
                                              : fmt::format("wait for {} at {}", fiber.why, text_of(fiber.site))]
        .push_back(fiber.linear);
  }
  std::string text;
  for (const auto& [place, threads] : places)
    text += fmt::format("{}threads {} {}", text.empty() ? "" : "; ", text_of(threads), place);
  return text;
}

bool Runner::run_block(const Grid& grid, Index block) {
  const Index& size = grid.threads;
  const size_t threads = size_t{size.x} * size.y * size.z;
  std::memset(shared.data(), 0xff, shared.size());  // the machine, too
  kernel->bind(&machine);
  for (Barrier& barrier : barriers) {
    barrier.arrived = 0;
    barrier.waiting.clear();
  }
  lanes = grid.lanes;
  groups.resize(std::max(groups.size(), (threads + lanes - 1) / lanes));
  for (auto& warp : groups) {
    for (Group& group : warp) group.arrived = 0;
  }
  fibers.resize(threads);
  next.resize(threads);
  std::iota(next.begin(), next.end(), 0);
  for (size_t i = 0; i < threads; ++i) {
    Fiber& fiber = fibers[i];
    const auto linear = static_cast<Word>(i);
    fiber.thread = {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
    fiber.block = block;
    fiber.block_size = size;
    fiber.grid_size = grid.blocks;
    fiber.linear = linear;
    fiber.lane = linear % lanes;
    fiber.lanes = lanes;
    fiber.state = Fiber::State::Ready;
    fiber.copies.clear();
    fiber.context = stacks.start(i, begin_fiber);
  }
  size_t ended = 0;
  failed = false;
  copies_at_once = grid.seed != 0 && random() % 3 == 0;
  while (!next.empty()) {
    ready.swap(next);
    next.clear();
    // Mostly anyhow; sometimes forwards or backwards, which shows other mistakes.
    const uint64_t way = grid.seed == 0 ? 1 : random() % 4;
    if (way == 1 || way == 2) std::sort(ready.begin(), ready.end());
    if (way == 2) std::reverse(ready.begin(), ready.end());
    if (way != 1 && way != 2) {
      for (size_t i = ready.size(); i > 1; --i) std::swap(ready[i - 1], ready[random() % i]);
    }
    for (const Word index : ready) {
      running = index;
      machine.current = &fibers[index];
      change(host, fibers[index].context);
      if (failed) return false;
      if (fibers[index].state == Fiber::State::Ended) ++ended;
    }
  }
  if (ended == threads) return true;
  failure = fmt::format("block ({}, {}, {}): {}", block.x, block.y, block.z, standstill());
  return false;
}

std::optional<std::string> Runner::run(const Kernel& its_kernel, const Grid& grid, const void* const* its_parameters) {
  kernel = &its_kernel;
  parameters = its_parameters;
  kernel->bind(&machine);
  shared = variables_of(reinterpret_cast<const void*>(kernel->bind));
  unsigned char* const dynamic = kernel->dynamic();
  const Bits room = dynamic == nullptr ? 0 : static_cast<Bits>(shared.data() + shared.size() - dynamic);
  if (shared.empty() || grid.dynamic_shared > room)
    return fmt::format("{} bytes of dynamic shared memory, of at most {}", grid.dynamic_shared, room);
  machine = {nullptr,        call_barrier,       call_arrive, call_exchange, call_copy_async, call_copy_commit,
             call_copy_wait, call_read_constant, call_update, call_fail,     dynamic,         grid.dynamic_shared};
  constants.clear();
  random.state = grid.seed * 0xD1342543DE82EF95u;
  const size_t threads = size_t{grid.threads.x} * grid.threads.y * grid.threads.z;
  if (threads == 0 || threads > 1024) return fmt::format("a block of {} threads", threads);
  if (!stacks.reserve(threads)) return "no memory for the stacks of a block";
  std::vector<uint64_t> order(size_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z);
  std::iota(order.begin(), order.end(), uint64_t{0});
  if (grid.seed != 0) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  const FaultGuard guard(end_at_fault, stacks);
  for (const uint64_t at : order) {
    const auto x = static_cast<Word>(at % grid.blocks.x), y = static_cast<Word>(at / grid.blocks.x % grid.blocks.y),
               z = static_cast<Word>(at / grid.blocks.x / grid.blocks.y);
    if (!run_block(grid, {x, y, z})) return failure;
  }
  if (std::string changed = constants.changed(); !changed.empty()) return changed;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> launch(const Kernel& kernel, const Grid& grid, const void* const* parameters) {
  return runner().run(kernel, grid, parameters);
}

}  // namespace codetta::emulator
