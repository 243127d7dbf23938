// SPDX-License-Identifier: Apache-2.0
// Any bytes as what people write in options: shapes with a type, numbers, targets, option lists, symbolic sizes.
#include "base/options.hpp"
#include "base/text.hpp"
#include "cli/specs.hpp"
#include "support.hpp"
#include "types/dim.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;

constexpr base::OptionRow rows[] = {{"dump", "plan|graph|source"}, {"time", "passes"}};

void options(std::string_view text) {
  base::Options first(rows);
  if (const auto parsed = first.parse(text); !parsed) {
    require(!parsed.error().text.empty() && parsed.error().offset <= text.size());
    return;
  }
  std::string canonical;
  for (const base::OptionRow& row : rows) {
    for (const std::string_view word : base::split(row.words, '|')) {
      if (first.has(row.name, word))
        canonical += (canonical.empty() ? "" : ",") + std::string(row.name) + ":" + std::string(word);
    }
  }
  base::Options second(rows);
  require(second.parse(canonical).has_value());
  for (const base::OptionRow& row : rows) {
    for (const std::string_view word : base::split(row.words, '|'))
      require(first.has(row.name, word) == second.has(row.name, word));
  }
}

void sizes(std::string_view text) {
  types::DimSyntaxError error;
  const auto dim = types::parse_dim(text, &error);
  if (!dim) {
    require(!error.reason.empty() && error.begin <= error.end && error.begin <= text.size());
    return;
  }
  const std::string printed = dim->to_string();
  const auto again = types::parse_dim(printed);
  require(again.has_value() && *again == *dim && again->to_string() == printed);
  const auto value = dim->evaluate([](std::string_view name) { return static_cast<int64_t>(name.size() * 37); });
  const auto low = dim->lower_bound(), high = dim->upper_bound();
  require(!value || ((!low || *low <= *value) && (!high || *value <= *high)));
}

void numbers(const std::string& text) {
  if (const auto value = base::parse_double(text); value && *value == *value) {
    const auto again = base::parse_double(base::format_double(*value));
    require(again.has_value() && *again == *value);
  }
  if (const auto value = base::parse_int64(text)) {
    require(base::parse_int64(std::to_string(*value)) == *value);
  }
  if (const auto scalar = cli::parse_scalar("x", text); !scalar) check_error(scalar.error(), 701, 701);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(view_of(data, size));
  for (const size_t at : {size_t{0}, text.find('[')}) {
    if (at > text.size()) continue;
    if (const auto form = cli::parse_form(text, at, "--tensor"); !form) {
      check_error(form.error(), 701, 701);
    } else {
      require(text.find(form->shape) != std::string::npos && text.find(form->dtype) != std::string::npos);
    }
  }
  if (const auto target = Target::parse(text)) {
    require(Target::parse(target->to_string()) && *Target::parse(target->to_string()) == *target);
  } else {
    check_error(target.error(), 401, 499);
  }
  numbers(text);
  sizes(text);
  options(text);
  return 0;
}
