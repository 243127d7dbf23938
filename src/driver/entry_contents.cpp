// SPDX-License-Identifier: Apache-2.0
// What package and tuning entries hold beside the package itself, as bytes and back. Entries are untrusted.
#include <bit>

#include "base/text.hpp"
#include "driver/package_entry.hpp"
#include "driver/tuning_record.hpp"
#include "package/bytes.hpp"

namespace codetta::driver {
namespace {

constexpr uint64_t max_kernels = 1 << 16;
constexpr uint64_t max_text = 1 << 20;

void write(package::ByteWriter& out, const KernelMetadata& m) {
  out.text(m.name);
  out.text(m.family);
  out.number(m.config.size());
  for (const auto& [name, value] : m.config) {
    out.text(name);
    out.integer(value);
  }
  out.number(m.terms.size());
  for (const CostTerm& term : m.terms) {
    out.text(term.name);
    out.number(std::bit_cast<uint64_t>(term.value));
    out.text(term.note);
  }
  out.number(std::bit_cast<uint64_t>(m.estimated_us));
  out.integer(m.workspace_bytes);
}

KernelMetadata read_metadata(package::ByteReader& in) {
  KernelMetadata m;
  m.name = in.text(max_text, "length of a name");
  m.family = in.text(max_text, "length of a family");
  m.config.reserve(16);
  for (size_t n = in.count(max_kernels, "number of settings"); n > 0 && in.ok(); --n) {
    std::string name = in.text(max_text, "length of a setting");
    m.config.emplace_back(std::move(name), in.integer());
  }
  m.terms.reserve(16);
  for (size_t n = in.count(max_kernels, "number of terms"); n > 0 && in.ok(); --n) {
    CostTerm term;
    term.name = in.text(max_text, "length of a term");
    term.value = std::bit_cast<double>(in.number());
    term.note = in.text(max_text, "length of a note");
    m.terms.push_back(std::move(term));
  }
  m.estimated_us = std::bit_cast<double>(in.number());
  m.workspace_bytes = in.integer();
  return m;
}

}  // namespace

std::string encode_ranking(const Ranking& ranking) {
  package::ByteWriter out;
  out.number(ranking.kernels.size());
  for (const KernelMetadata& kernel : ranking.kernels) write(out, kernel);
  out.number(ranking.rejections.size());
  for (const Rejection& rejection : ranking.rejections) {
    out.number(rejection.code);
    out.text(rejection.kernel);
    out.text(rejection.text);
    out.number(rejection.limits.size());
    for (const Rejection::Limit& limit : rejection.limits) {
      out.text(limit.name);
      out.integer(limit.given);
      out.integer(limit.limit);
    }
  }
  return std::move(out).take();
}

std::optional<Ranking> decode_ranking(std::string_view bytes, const Target& target) {
  package::ByteReader in(bytes);
  Ranking ranking;
  for (size_t n = in.count(max_kernels, "number of kernels"); n > 0 && in.ok(); --n) {
    ranking.kernels.push_back(read_metadata(in));
    ranking.kernels.back().target = target;
  }
  for (size_t n = in.count(max_kernels, "number of rejections"); n > 0 && in.ok(); --n) {
    Rejection rejection;
    rejection.code = static_cast<uint16_t>(in.number_up_to(UINT16_MAX, "code"));
    rejection.kernel = in.text(max_text, "length of a name");
    rejection.text = in.text(max_text, "length of a reason");
    for (size_t limits = in.count(max_kernels, "number of limits"); limits > 0 && in.ok(); --limits) {
      Rejection::Limit limit;
      limit.name = in.text(max_text, "length of a name");
      limit.given = in.integer();
      limit.limit = in.integer();
      rejection.limits.push_back(std::move(limit));
    }
    ranking.rejections.push_back(std::move(rejection));
  }
  if (!in.ok() || in.left() != 0) return std::nullopt;
  return ranking;
}

std::string encode_tuning(const TuningRecord& record) {
  std::string text;
  for (const auto& [name, microseconds] : record.medians)
    text += name + "\t" + base::format_double(microseconds) + "\n";
  return text;
}

TuningRecord decode_tuning(std::string_view text) {
  TuningRecord record;
  while (!text.empty()) {
    const size_t tab = text.find('\t'), end = text.find('\n');
    if (tab == std::string_view::npos || end == std::string_view::npos || tab > end) break;
    const auto microseconds = base::parse_double(text.substr(tab + 1, end - tab - 1));
    if (!microseconds || !(*microseconds > 0)) break;
    record.medians.emplace_back(text.substr(0, tab), *microseconds);
    text.remove_prefix(end + 1);
  }
  return record;
}

}  // namespace codetta::driver
