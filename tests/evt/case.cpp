// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

#include <map>
#include <sstream>
#include <stdexcept>

namespace codetta::evt_tests {
namespace {

std::vector<std::string> words(std::string_view text, char separator = ' ') {
  std::vector<std::string> result;
  std::stringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) result.push_back(word);
  }
  return result;
}

alignas(256) char nothing[256];

TensorView view_of(DType dtype, const std::vector<int64_t>& shape, const std::string& form) {
  Dims dims, strides;
  for (const int64_t size : shape) dims.push_back(size);
  strides = row_major_strides(dims);
  const int rank = dims.rank();
  if (form == "columns") {
    strides[rank - 1] = dims[rank - 2];
    strides[rank - 2] = 1;
  } else if (form.starts_with("ld=")) {
    strides[rank - 2] = std::stoll(form.substr(3));
  }
  return TensorView::make(static_cast<void*>(nothing), dtype, dims, strides).value();
}

struct Sizes {
  std::map<std::string, int64_t> values{{"M", 256}, {"N", 384}, {"K", 128}};
  std::map<std::string, std::string> words_of;
};
Sizes read(std::string_view problem) {
  Sizes sizes;
  for (const std::string& word : words(problem)) {
    const size_t equal = word.find('=');
    const std::string name = word.substr(0, equal), value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (!value.empty() && value[0] >= '0' && value[0] <= '9') {
      sizes.values[name] = std::stoll(value);
    } else {
      sizes.words_of[name] = value;
    }
  }
  return sizes;
}

}  // namespace

Problem problem_of(const Case& c) {
  Sizes sizes = read(c.problem);
  const auto dtype = [&](const char* name, const char* otherwise) {
    const auto found = sizes.words_of.find(name);
    return dtype_from_name(found == sizes.words_of.end() ? otherwise : found->second).value();
  };
  const DType a = dtype("A", "f16"), b = dtype("B", std::string(dtype_name(a)).c_str());
  std::vector<int64_t> a_shape{sizes.values["M"], sizes.values["K"]}, b_shape{sizes.values["K"], sizes.values["N"]};
  if (sizes.values.contains("batch")) {
    a_shape.insert(a_shape.begin(), sizes.values["batch"]);
    b_shape.insert(b_shape.begin(), sizes.values["batch"]);
  }
  Problem problem;
  problem.arguments.A = view_of(a, a_shape, "");
  problem.arguments.B = view_of(b, b_shape, sizes.words_of.contains("b_columns") ? "columns" : "");
  if (sizes.words_of.contains("tf32")) problem.arguments.math = MathMode::Tf32;
  if (sizes.words_of.contains("two_level")) problem.arguments.math = MathMode::Fp8TwoLevelAccumulation;
  problem.deterministic = !sizes.words_of.contains("nondeterministic");
  std::vector<NamedArgument> arguments;
  for (const std::string& word : words(c.arguments)) {
    const size_t equal = word.find('='), bracket = word.find('['), close = word.find(']');
    const std::string name = word.substr(0, equal);
    if (bracket == std::string::npos) {
      const std::string number = word.substr(word.find(':') + 1);
      if (number.find_first_of(".e") == std::string::npos)
        arguments.push_back({name, int64_t{std::stoll(number)}});
      else
        arguments.push_back({name, std::stod(number)});
      continue;
    }
    std::vector<int64_t> shape;
    for (const std::string& size : words(word.substr(bracket + 1, close - bracket - 1), ','))
      shape.push_back(sizes.values.contains(size) ? sizes.values.at(size) : std::stoll(size));
    const std::string form = close + 1 < word.size() ? word.substr(close + 2) : "";
    arguments.push_back(
        {name, view_of(dtype_from_name(word.substr(equal + 1, bracket - equal - 1)).value(), shape, form)});
  }
  auto epilogue = Epilogue::parse(std::string(c.text), std::string(c.name) + ".py");
  if (!epilogue) throw std::runtime_error(epilogue.error().render());
  problem.arguments.epilogue = EpilogueArguments(*std::move(epilogue), std::move(arguments));
  return problem;
}

EvtOptions options_of(const Case& c, const std::string& target) {
  EvtOptions options;
  options.target = Target::parse(target).value();
  options.deterministic = !read(c.problem).words_of.contains("nondeterministic");
  return options;
}

std::string golden_of(const EvtText& text) {
  std::ostringstream out;
  out << "C " << (text.source.empty() ? "none" : text.source) << " " << text.element_c << " " << text.stride_c << "\nD "
      << (text.destination.empty() ? "none" : text.destination) << " " << text.element_d << " " << text.stride_d
      << "\n";
  for (const auto* strides : {&text.c_strides, &text.d_strides})
    out << "{" << (*strides)[0] << ", " << (*strides)[1] << ", " << (*strides)[2] << "} ";
  out << "\nepilogue tile " << text.epilogue_tile_m << "x" << text.epilogue_tile_n << ", stages " << text.stages_c
      << " and " << text.stages_d << (text.reuses_c ? ", one memory" : "") << ", " << text.shared_bytes << " bytes\n";
  for (const std::string& note : text.notes) out << "note: " << note << "\n";
  for (const auto& [buffer, name] : text.renames) out << buffer << " -> " << name << "\n";
  out << "== functors\n"
      << text.functors << "== types\n"
      << text.types << "== arguments of " << text.name << "\n"
      << text.arguments << "\n";
  return out.str();
}

}  // namespace codetta::evt_tests
