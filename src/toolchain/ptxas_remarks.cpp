// SPDX-License-Identifier: Apache-2.0
#include "toolchain/ptxas_remarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {

namespace {

constexpr int64_t largest_number = 1 << 30;  // so that sums of damaged ones do not overflow

// The number that stands before `unit`: 256 in "256 bytes stack frame".
int64_t number_before(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  size_t end = at;
  while (end > 0 && line[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return std::min(value, largest_number);
}

// A name as encode_remarks can write it: "" when it has blanks.
std::string_view kernel_name(std::string_view name) {
  return name == "-" || name.find_first_of(" \t") != std::string_view::npos ? std::string_view() : name;
}

// A line without the tabs that part the lines of encode_remarks.
std::string kept_line(std::string_view line) {
  std::string text(base::trim(line));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

std::string_view name_in(std::string_view line) {
  const size_t from = line.find('\'');
  if (from == std::string_view::npos) return {};
  return line.substr(from + 1, line.find('\'', from + 1) - from - 1);
}

// "(C7510)" and its like.
std::optional<int> remark_number(std::string_view line) {
  const size_t at = line.find("(C");
  if (at == std::string_view::npos) return std::nullopt;
  int number = 0;
  const auto [end, failed] = std::from_chars(line.data() + at + 2, line.data() + line.size(), number);
  if (failed != std::errc{} || end == line.data() + line.size() || *end != ')') return std::nullopt;
  return number;
}

}  // namespace

std::vector<PtxasRemarks> parse_ptxas_remarks(std::string_view log) {
  std::vector<PtxasRemarks> all;
  std::vector<std::string> early;  // of what kernel is said by the line itself, if at all
  const auto serializes = [](int number) { return number >= 7510 && number <= 7519; };
  bool early_serialized = false;
  for (const std::string_view line : base::split(log, '\n')) {
    // Below "Function properties" ptxas by itself, as nvcc calls it, leaves its name out.
    const bool properties = line.starts_with("    ") && line.find("bytes stack frame") != std::string_view::npos;
    if (!line.starts_with("ptxas") && !properties) continue;
    if (line.find("Compiling entry function") != std::string_view::npos) {
      all.emplace_back().kernel = kernel_name(name_in(line));
      continue;
    }
    const auto number = remark_number(line);
    if (number || line.starts_with("ptxas warning")) {
      const std::string text = kept_line(line);
      const bool is_serialized = number && serializes(*number);
      bool assigned = false;
      for (PtxasRemarks& kernel : all) {
        if (line.find("'" + kernel.kernel + "'") == std::string_view::npos) continue;
        kernel.lines.push_back(text);
        kernel.serialized |= is_serialized;
        assigned = true;
      }
      if (!assigned) {
        early.push_back(text);
        early_serialized |= is_serialized;
      }
      continue;
    }
    if (all.empty()) continue;
    PtxasRemarks& kernel = all.back();
    if (line.find("bytes stack frame") != std::string_view::npos) {
      kernel.stack_bytes = std::max(kernel.stack_bytes, number_before(line, "bytes stack frame"));
      kernel.spill_store_bytes += number_before(line, "bytes spill stores");
      kernel.spill_load_bytes += number_before(line, "bytes spill loads");
    } else if (const size_t used = line.find("Used "); used != std::string_view::npos) {
      kernel.registers = static_cast<int>(number_before(line, "registers"));
      kernel.barriers = static_cast<int>(number_before(line, "barriers"));
      kernel.shared_bytes = number_before(line, "bytes smem");
      kernel.stack_bytes = std::max(kernel.stack_bytes, number_before(line, "bytes cumulative stack size"));
    }
  }
  // These are printed before the kernel they belong to, or name none: they count for each.
  for (const std::string& line : early) {
    const std::string_view named = name_in(line);
    const bool is_of_one = !named.empty() && std::any_of(all.begin(), all.end(), [&](const PtxasRemarks& kernel) {
      return kernel.kernel == named;
    });
    const auto number = remark_number(line);
    for (PtxasRemarks& kernel : all) {
      if (is_of_one && kernel.kernel != named) continue;
      kernel.lines.push_back(line);
      kernel.serialized |= number && serializes(*number);
    }
  }
  if (all.empty() && !early.empty()) {
    all.emplace_back().lines = early;
    all.back().serialized = early_serialized;
  }
  return all;
}

Result<void> check_remarks(const std::vector<PtxasRemarks>& remarks, const std::string& label) {
  for (const PtxasRemarks& kernel : remarks) {
    std::string why;
    if (kernel.spill_store_bytes != 0 || kernel.spill_load_bytes != 0) {
      why = fmt::format("it spills: {} bytes stored and {} loaded a thread, with {} registers",
                        kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.registers);
    } else if (kernel.stack_bytes != 0) {
      why = fmt::format("it needs a stack of {} bytes a thread", kernel.stack_bytes);
    } else if (kernel.serialized) {
      why = "its matrix instructions run one after the other: " +
            (kernel.lines.empty() ? std::string("ptxas gives no reason") : kernel.lines.front());
    }
    if (why.empty()) continue;
    return diag::error(diag::Code::kernel_resources,
                       fmt::format("{} does not fit the registers", kernel.kernel.empty() ? label : kernel.kernel))
        .reason(why)
        .help("another configuration is chosen instead; a smaller tile or a simpler epilogue needs fewer registers");
  }
  return {};
}

std::string encode_remarks(const std::vector<PtxasRemarks>& remarks) {
  std::string text;
  for (const PtxasRemarks& kernel : remarks) {
    text += fmt::format("{} {} {} {} {} {} {} {}", kernel.kernel.empty() ? "-" : kernel.kernel, kernel.registers,
                        kernel.barriers, kernel.shared_bytes, kernel.stack_bytes, kernel.spill_store_bytes,
                        kernel.spill_load_bytes, kernel.serialized ? 1 : 0);
    for (const std::string& line : kernel.lines) text += "\t" + line;
    text += '\n';
  }
  return text;
}

std::vector<PtxasRemarks> decode_remarks(std::string_view text) {
  std::vector<PtxasRemarks> remarks;
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.empty()) continue;
    const auto parts = base::split(line, '\t');
    const auto words = base::split(parts[0], ' ');
    if (words.size() != 8) return {};
    PtxasRemarks kernel;
    if (words[0] != "-") kernel.kernel = words[0];
    int64_t numbers[7] = {};
    for (size_t i = 0; i < 7; ++i) {
      const std::string_view word = words[i + 1];
      const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), numbers[i]);
      if (failed != std::errc{} || end != word.data() + word.size()) return {};
    }
    kernel.registers = static_cast<int>(numbers[0]);
    kernel.barriers = static_cast<int>(numbers[1]);
    kernel.shared_bytes = numbers[2];
    kernel.stack_bytes = numbers[3];
    kernel.spill_store_bytes = numbers[4];
    kernel.spill_load_bytes = numbers[5];
    kernel.serialized = numbers[6] != 0;
    for (size_t i = 1; i < parts.size(); ++i) kernel.lines.emplace_back(parts[i]);
    remarks.push_back(std::move(kernel));
  }
  return remarks;
}

}  // namespace codetta::toolchain
