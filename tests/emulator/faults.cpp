// SPDX-License-Identifier: Apache-2.0
#include "emulator/faults.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>

#include <fmt/format.h>

namespace codetta::emulator {
namespace {

constexpr unsigned char fill = 0xff, margin_fill = 0xc7;
constexpr size_t end_alignment = 16, device_alignment = 256;

struct Allocation {
  char* begin;
  size_t bytes;
  char* pages;  // the first that may be touched
  size_t page_bytes;
  bool of_host;
};

struct Registry {
  std::mutex mutex;
  std::map<const char*, Allocation> all;  // by begin
};
Registry& registry() {
  static Registry the_registry;
  return the_registry;
}

size_t page() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Fault {
  bool active = false;
  void (*end)() = nullptr;
  const Stacks* stacks = nullptr;
  int signal = 0;
  char* address = nullptr;
  const void* instruction = nullptr;
  void* stack = nullptr;
  std::array<char, 64 * 1024> memory;  // of the handler
};
Fault& fault() {
  thread_local Fault the_fault;
  return the_fault;
}

constexpr std::array signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
std::array<struct sigaction, signals.size()> former;

void handle(int signal, siginfo_t* info, void* context) {
  Fault& f = fault();
#if defined(__x86_64__)
  auto& stack = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP];
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  constexpr int below = 64 + 8;  // as after a call
#elif defined(__aarch64__)
  auto& stack = static_cast<ucontext_t*>(context)->uc_mcontext.sp;
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.pc;
  constexpr int below = 64;
#else
  (void)context;
  uintptr_t stack = 0, next = 0;
  constexpr int below = 0;
#endif
  char* const top = f.active ? f.stacks->top_of(reinterpret_cast<const void*>(stack)) : nullptr;
  if (top == nullptr) {
    for (size_t i = 0; i < signals.size(); ++i) {
      if (signals[i] == signal) ::sigaction(signal, &former[i], nullptr);
    }
    return;  // happens again, to whom it belongs
  }
  f.signal = signal;
  f.address = static_cast<char*>(info->si_addr);
  f.instruction = reinterpret_cast<const void*>(next);
  // The fiber goes on in `end`, above what its stack holds: nothing of that is needed any more, and where the stack
  // itself has overflown nothing else is there.
  using Register = std::remove_reference_t<decltype(stack)>;
  stack = static_cast<Register>(reinterpret_cast<uintptr_t>(top - below));
  next = static_cast<Register>(reinterpret_cast<uintptr_t>(f.end));
}

void install() {
  static const bool done = [] {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &action, &former[i]);
    return true;
  }();
  (void)done;
}

}  // namespace

void* allocate_guarded(size_t bytes, bool front, bool of_host) {
  const size_t whole = (std::max<size_t>(bytes, 1) + page() - 1) / page() * page();
  void* const memory = ::mmap(nullptr, whole + 2 * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const pages = static_cast<char*>(memory) + page();
  ::mprotect(memory, page(), PROT_NONE);
  ::mprotect(pages + whole, page(), PROT_NONE);
  // What a device's runtime gives out lies at multiples of 256 bytes.
  const size_t alignment = of_host ? end_alignment : device_alignment;
  char* const begin = front ? pages : pages + (whole - bytes) / alignment * alignment;
  std::memset(pages, margin_fill, whole);
  std::memset(begin, fill, bytes);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.all[begin] = {begin, bytes, pages, whole, of_host};
  return begin;
}

void free_guarded(void* memory) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.all.find(static_cast<const char*>(memory));
  if (at == r.all.end()) return;
  ::munmap(at->second.pages - page(), at->second.page_bytes + 2 * page());
  r.all.erase(at);
}

bool is_guarded(const void* memory) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.all.count(static_cast<const char*>(memory)) != 0;
}

bool is_of_host(const void* address) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto* const at = static_cast<const char*>(address);
  auto next = r.all.upper_bound(at);
  if (next == r.all.begin()) return false;
  const Allocation& a = (--next)->second;
  return a.of_host && at < a.begin + a.bytes;
}

namespace {

std::string text_of(const Allocation& a) {
  const auto written = [](char c) { return static_cast<unsigned char>(c) != margin_fill; };
  const char* const end = a.begin + a.bytes;
  if (const char* at = std::find_if(static_cast<const char*>(a.pages), static_cast<const char*>(a.begin), written);
      at != a.begin)
    return fmt::format("a write {} bytes before an allocation of {}", a.begin - at, a.bytes);
  const char* const last = a.pages + a.page_bytes;
  const char* const at = std::find_if(end, last, written);
  return at == last ? "" : fmt::format("a write {} bytes behind an allocation of {}", at - end, a.bytes);
}

}  // namespace

std::string surroundings_text(const void* memory) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (const auto& [begin, allocation] : r.all) {
    if (memory != nullptr && memory != begin) continue;
    std::string text = text_of(allocation);
    if (!text.empty()) return text;
  }
  return "";
}

FaultGuard::FaultGuard(void (*end)(), const Stacks& stacks) {
  install();
  Fault& f = fault();
  f.active = true;
  f.end = end;
  f.stacks = &stacks;
  stack_t stack{};
  stack.ss_sp = f.memory.data();
  stack.ss_size = f.memory.size();
  ::sigaltstack(&stack, nullptr);
}

FaultGuard::~FaultGuard() {
  fault().active = false;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

namespace {

// Where an instruction lies: "exp+0x12 of libm.so.6".
std::string place_of(const void* instruction) {
  Dl_info info{};
  if (instruction == nullptr || ::dladdr(instruction, &info) == 0 || info.dli_fname == nullptr) return "?";
  const std::string_view path = info.dli_fname;
  const auto behind = [&](const void* begin) {
    return static_cast<size_t>(static_cast<const char*>(instruction) - static_cast<const char*>(begin));
  };
  const bool named = info.dli_sname != nullptr;
  return fmt::format("{}+{:#x} of {}", named ? info.dli_sname : "", behind(named ? info.dli_saddr : info.dli_fbase),
                     path.substr(path.rfind('/') + 1));
}

}  // namespace

std::string fault_text() {
  const Fault& f = fault();
  if (f.signal == SIGFPE) return "a division by 0";
  if (f.signal == SIGILL) return "an index beyond its array";
  if (f.stacks->overflows(f.address)) return "a thread needs more stack than there is";
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const Allocation* nearest = nullptr;
  size_t distance = 0;
  bool behind = false;
  for (const auto& [begin, a] : r.all) {
    const bool is_behind = f.address >= a.begin;
    const size_t away = is_behind ? static_cast<size_t>(f.address - a.begin) -
                                        std::min(a.bytes, static_cast<size_t>(f.address - a.begin))
                                  : static_cast<size_t>(a.begin - f.address);
    if (nearest == nullptr || away < distance) nearest = &a, distance = away, behind = is_behind;
  }
  if (nearest == nullptr || distance > page() * 16)
    return fmt::format("an access of no memory, at {}, by {}", static_cast<const void*>(f.address),
                       place_of(f.instruction));
  return fmt::format("an access {} bytes {} an allocation of {} bytes", distance, behind ? "behind" : "before",
                     nearest->bytes);
}

}  // namespace codetta::emulator
