// SPDX-License-Identifier: Apache-2.0
// The problem of a command line: data from files or random, bound by name. What the options leave open comes from the
// epilogue's own line "# bind: C=tensor[M,N]:T alpha=scalar:0.5 D=out[M,N]:T", when it has one.
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "cli/bind_line.hpp"
#include "cli/options.hpp"
#include "cli/places.hpp"
#include "cli/specs.hpp"

namespace codetta::cli {
namespace {

struct GemmSizes {
  int64_t batch = 0, m = 0, n = 0, k = 0;
};

Result<Dims> parse_shape(const std::string& text, const GemmSizes& sizes) {
  Dims shape;
  std::istringstream terms(text);
  for (std::string written; std::getline(terms, written, ',');) {
    std::string term = written;
    std::erase(term, ' ');
    const size_t slash = term.find('/');
    const std::string symbol = term.substr(0, slash);
    std::optional<int64_t> size = symbol == "M"       ? sizes.m
                                  : symbol == "N"     ? sizes.n
                                  : symbol == "K"     ? sizes.k
                                  : symbol == "batch" ? sizes.batch
                                                      : parse_int(symbol);
    const std::optional<int64_t> divisor = slash == std::string::npos ? 1 : parse_int(term.substr(slash + 1));
    if (!size || !divisor || *divisor <= 0) {
      return usage_error("'" + written + "' is not a size", "in the shape [" + text + "]",
                         "use numbers below 2^63 and M, N, K, batch, such as [M,N/2]");
    }
    if (*size % *divisor != 0) {
      return usage_error("'" + term + "' is no whole number: " + symbol + " is " + std::to_string(*size),
                         "in the shape [" + text + "]",
                         "choose sizes that are multiples of " + std::to_string(*divisor));
    }
    shape.push_back(*size / *divisor);
  }
  return shape;
}

Result<std::map<std::string, std::string>> named(const std::vector<std::string>& items, const std::string& option) {
  std::map<std::string, std::string> result;
  for (const std::string& item : items) {
    auto pair = split_item(item, option);
    if (!pair) return std::move(pair).error();
    if (!result.insert(*pair).second)
      return usage_error(pair->first + " is given twice", "by " + option, "give each name once");
  }
  return result;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Builder {
 public:
  Builder(const GemmOptions& options, bool data) : options_(options), data_(data) {}

  Result<GemmProblem> build() {
    if (auto ok = read(); !ok) return std::move(ok).error();
    if (auto ok = factors(); !ok) return std::move(ok).error();
    if (auto ok = arguments(); !ok) return std::move(ok).error();
    if (auto ok = places(); !ok) return std::move(ok).error();
    return std::move(problem_);
  }

 private:
  // `text` names the error's option; CODETTA's own TRY macro is internal, so results are unwrapped by hand here.
  template <class T>
  bool take(Result<T> result, T& value) {
    if (result) {
      value = *std::move(result);
      return true;
    }
    error_ = std::move(result).error();
    return false;
  }

  Result<void> read() {
    Source source;
    if (!options_.epilogue.empty()) {
      if (!take(read_source(options_.epilogue, TextOf::Epilogue), source)) return *error_;
      auto epilogue = Epilogue::parse(source.text, source.name, options_.function);
      if (!epilogue) return std::move(epilogue).error();
      epilogue_ = *std::move(epilogue);
      if (!take(parse_bind_line(source), bind_)) return *error_;
      if (source.name != "<command line>") problem_.input_files.push_back(source.name);
    } else if (!options_.function.empty()) {
      return usage_error("--function " + options_.function + " names a function of no text", "",
                         "give the text too, with --epilogue");
    }
    if (!options_.dtype.empty() && !take(parse_dtype(options_.dtype), a_dtype_)) return *error_;
    if (!options_.accumulator.empty()) {
      DType accumulator{};
      if (!take(parse_dtype(options_.accumulator), accumulator)) return *error_;
      problem_.arguments.accumulator = accumulator;
    }
    Numerics numerics;
    if (!take(numerics_of(options_), numerics)) return *error_;
    problem_.arguments.strict = numerics.strict;
    problem_.arguments.math = numerics.math;
    problem_.arguments.rounding = options_.as_unfused ? Rounding::AsUnfused : Rounding::Fused;
    return {};
  }

  Result<TensorView> own(Tensor tensor) {
    problem_.owned.push_back(std::move(tensor));
    return problem_.owned.back().view();
  }
  // Addresses for a tensor; pages that are never written take no memory. For data, what the machine is willing to give.
  // Else anything: a problem far larger than this machine can be asked about.
  Result<TensorView> reserve(DType dtype, const Dims& shape) {
    alignas(64) static std::byte place[64];
    auto view = TensorView::make(static_cast<void*>(place), dtype, shape);
    if (!view || view->empty()) return view;
    const auto [begin, end] = view->byte_range();
    const auto bytes = static_cast<size_t>(end - begin);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (data_ ? 0 : MAP_NORESERVE);
    // Large pages, as tensors of this size have them everywhere.
    constexpr size_t large_page = size_t{2} << 20;
    const size_t taken = bytes + (data_ ? large_page : 0);
    void* memory =
        data_ && bytes < lazy_bytes ? MAP_FAILED : ::mmap(nullptr, taken, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory != MAP_FAILED) {
      problem_.reserved.emplace_back(memory, [taken](void* reserved) { ::munmap(reserved, taken); });
      if (data_) {
        memory =
            reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory) + large_page - 1) / large_page * large_page);
        (void)::madvise(memory, bytes, MADV_HUGEPAGE);
      }
      return TensorView::make(memory, dtype, shape);
    }
    if (!data_ && next_place_ + bytes > next_place_) {  // a limit on addresses; nobody looks into them
      auto* const nowhere = reinterpret_cast<void*>(next_place_);
      next_place_ += (bytes + 4095) / 4096 * 4096;
      return TensorView::make(nowhere, dtype, shape);
    }
    auto tensor = Tensor::make(dtype, shape);
    if (!tensor) return std::move(tensor).error();
    return own(*std::move(tensor));
  }
  Result<TensorView> random(DType dtype, const Dims& shape, const std::string& data) {
    const uint64_t seed = options_.seed * 1000 + problem_.owned.size() + problem_.reserved.size();
    auto view = reserve(dtype, shape);
    if (!data_ || !view) return view;
    const Distribution distribution = data == "positive"   ? Distribution::Positive
                                      : data == "tiny"     ? Distribution::Small
                                      : data == "integers" ? Distribution::Integers
                                                           : Distribution::Normal;
    problem_.fills.push_back({*view, false, seed, distribution});
    return view;
  }
  Result<TensorView> factor(const char* name, const std::string& file, DType dtype, int64_t rows, int64_t columns,
                            bool transposed) {
    if (!file.empty()) {
      auto tensor = read_tensor(file);
      if (!tensor) return std::move(tensor).error();
      problem_.input_files.push_back(file);
      auto view = own(*std::move(tensor));
      if (view->rank() != 2 && view->rank() != 3) {
        return usage_error(file + " holds no matrix for " + name, "it holds " + view->describe(),
                           "pass an array of shape [rows, columns], or [batch, rows, columns]");
      }
      return transposed ? view->transposed() : *view;
    }
    if (rows < 0 || columns < 0) {
      return usage_error(std::string("the size of ") + name + " is not known",
                         "neither a file nor all of --m, --n, --k are given",
                         "pass --m, --n and --k, or --a A.npy and --b B.npy");
    }
    Dims shape;
    const auto bound_batch = bind_.sizes.find("batch");
    const int64_t batch = options_.batch >= 0                ? options_.batch
                          : bound_batch != bind_.sizes.end() ? bound_batch->second
                                                             : -1;
    if (batch >= 0) shape.push_back(batch);
    shape.push_back(transposed ? columns : rows);
    shape.push_back(transposed ? rows : columns);
    auto view = random(dtype, shape, "");
    if (!view) return std::move(view).error();
    return transposed ? view->transposed() : *view;
  }

  Result<void> factors() {
    const auto size_or_bound = [&](int64_t given, const char* name) {
      const auto bound = bind_.sizes.find(name);
      return given >= 0 ? given : bound != bind_.sizes.end() ? bound->second : int64_t{-1};
    };
    int64_t m = size_or_bound(options_.m, "M"), n = size_or_bound(options_.n, "N"), k = size_or_bound(options_.k, "K");
    problem_.owned.reserve(64);
    auto a = factor("A", options_.a_file, a_dtype_, m, k, options_.transpose_a);
    if (!a) return std::move(a).error();
    problem_.arguments.A = *a;
    a_dtype_ = a->dtype();
    b_dtype_ = a_dtype_ == u8 ? i8 : a_dtype_;
    if (!options_.b_dtype.empty() && !take(parse_dtype(options_.b_dtype), b_dtype_)) return *error_;
    if (k < 0) k = a->size(a->rank() - 1);
    auto b = factor("B", options_.b_file, b_dtype_, k, n, options_.transpose_b);
    if (!b) return std::move(b).error();
    problem_.arguments.B = *b;
    if (auto agree = check_given(*a, *b); !agree) return agree;
    sizes_ = {a->rank() == 3   ? a->size(0)
              : b->rank() == 3 ? b->size(0)
                               : 1,
              a->size(a->rank() - 2), b->size(b->rank() - 1), a->size(a->rank() - 1)};
    batched_ = a->rank() == 3 || b->rank() == 3;
    if (options_.batch >= 0 && !batched_)
      return usage_error("--batch " + std::to_string(options_.batch) + " contradicts the files",
                         "A is " + a->describe() + ", B is " + b->describe() + ": neither has a batch",
                         "leave out --batch, or pass a file that holds [batch, rows, columns]");
    return {};
  }

  // What is said beside a file must be what the file holds.
  Result<void> check_given(const TensorView& a, const TensorView& b) const {
    const auto contradicts = [](const char* option, const std::string& given, const std::string& file,
                                const TensorView& view, const char* transposing) {
      const std::string holds = *transposing == '\0' ? "it holds " + view.describe()
                                                     : "it holds " + view.transposed().describe() + ", which " +
                                                           transposing + " turns to " + view.describe();
      return usage_error(std::string(option) + " " + given + " contradicts " + file, holds,
                         std::string("leave out ") + option + ", or pass the file that was meant");
    };
    const auto transposing = [&](const TensorView& view) {
      if (&view == &a) return options_.transpose_a ? "--transpose-a" : "";
      return options_.transpose_b ? "--transpose-b" : "";
    };
    const auto size = [&](const char* option, int64_t given, const std::string& file, const TensorView& view,
                          int from_end) -> Result<void> {
      if (given < 0 || file.empty() || view.rank() < from_end || view.size(view.rank() - from_end) == given) return {};
      return contradicts(option, std::to_string(given), file, view, transposing(view));
    };
    const auto type = [&](const char* option, const std::string& given, const std::string& file,
                          const TensorView& view) -> Result<void> {
      if (given.empty() || file.empty() || dtype_name(view.dtype()) == given) return {};
      return contradicts(option, given, file, view, transposing(view));
    };
    for (const auto& checked :
         {size("--m", options_.m, options_.a_file, a, 2), size("--k", options_.k, options_.a_file, a, 1),
          size("--k", options_.k, options_.b_file, b, 2), size("--n", options_.n, options_.b_file, b, 1),
          size("--batch", options_.batch, options_.a_file, a, 3),
          size("--batch", options_.batch, options_.b_file, b, 3), type("--dtype", options_.dtype, options_.a_file, a),
          type("--b-dtype", options_.b_dtype, options_.b_file, b)}) {
      if (!checked) return checked;
    }
    return {};
  }

  Result<DType> dtype_named(const std::string& name) {
    if (name == "T" || name.empty()) return a_dtype_;
    if (name == "acc") return accumulator();
    return parse_dtype(name);
  }
  DType accumulator() const {
    const auto natural = default_accumulator(a_dtype_, b_dtype_);
    return problem_.arguments.accumulator ? *problem_.arguments.accumulator : natural.value_or(f32);
  }
  DType output_dtype(const OutputShape* value) const {
    const auto natural = default_accumulator(a_dtype_, b_dtype_);
    if (natural != i32 && natural != i64) return a_dtype_;
    return value != nullptr && (value->dtype == f32 || value->dtype == f64) ? value->dtype : accumulator();
  }
  Result<TensorView> tensor_of(const Form& form) {
    auto shape = parse_shape(form.shape, sizes_);
    if (!shape) return std::move(shape).error();
    auto dtype = dtype_named(form.dtype);
    if (!dtype) return std::move(dtype).error();
    return random(*dtype, *shape, form.data);
  }

  // Each name stands for one thing, and without an epilogue D is the only one.
  Result<void> check_names(const std::map<std::string, std::string>& tensors,
                           const std::map<std::string, std::string>& scalars,
                           const std::map<std::string, std::string>& outputs) const {
    std::map<std::string, std::string> option_of;
    const std::pair<const char*, const std::map<std::string, std::string>*> all[] = {
        {"--tensor", &tensors}, {"--scalar", &scalars}, {"--out", &outputs}};
    for (const auto& [option, given] : all) {
      for (const auto& [name, text] : *given) {
        if (!epilogue_ && (name != "D" || given == &scalars)) {
          return usage_error("there is no epilogue that knows " + name, std::string("given to ") + option,
                             "pass --epilogue with a function that uses it; a plain product has the one output D");
        }
        const auto [at, fresh] = option_of.emplace(name, option);
        if (!fresh) return usage_error(name + " is given twice", "by " + at->second + " and " + option, "give it once");
      }
    }
    return {};
  }

  Result<void> arguments() {
    std::map<std::string, std::string> tensors, scalars, outputs;
    if (!take(named(options_.tensors, "--tensor"), tensors)) return *error_;
    if (!take(named(options_.scalars, "--scalar"), scalars)) return *error_;
    if (!take(named(options_.outputs, "--out"), outputs)) return *error_;
    if (auto ok = check_names(tensors, scalars, outputs); !ok) return ok;
    std::vector<NamedArgument> bound;
    for (const auto& [name, text] : tensors) {
      if (text.starts_with('[')) {
        auto form = parse_form(name + "=" + text, name.size() + 1, "--tensor");
        if (!form) return std::move(form).error();
        auto view = tensor_of(*form);
        if (!view) return std::move(view).error();
        bound.push_back({name, *view});
        continue;
      }
      auto tensor = read_tensor(text);
      if (!tensor && tensor.error().code() == 620 && parse_scalar(name, text))
        return usage_error("--tensor " + name + "=" + text + " names no file", "it looks like a number",
                           "write --scalar " + name + "=" + text);
      if (!tensor) return std::move(tensor).error();
      problem_.input_files.push_back(text);
      bound.push_back({name, *own(*std::move(tensor))});
    }
    for (const auto& [name, text] : scalars) {
      auto value = parse_scalar(name, text);
      if (!value) return std::move(value).error();
      bound.push_back({name, *value});
    }
    const auto is_bound = [&](const std::string& name) {
      return std::any_of(bound.begin(), bound.end(), [&](const NamedArgument& b) { return b.name == name; });
    };
    const std::vector<std::string> operands = epilogue_ ? epilogue_->parameters() : std::vector<std::string>{"accum"};
    std::vector<std::string> names = epilogue_ ? epilogue_->outputs() : std::vector<std::string>{"D"};
    const auto holds = [](const std::vector<std::string>& list, const std::string& name) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    // The line binds what it names; with another function than the last, of what that one has.
    const auto wanted = [&](const std::string& name) {
      return name != "accum" && !is_bound(name) && (options_.function.empty() || holds(operands, name));
    };
    for (const auto& [name, text] : bind_.scalars) {
      if (!wanted(name)) continue;
      auto value = parse_scalar(name, text);
      if (!value) return std::move(value).error();
      bound.push_back({name, *value});
    }
    for (const auto& [name, form] : bind_.tensors) {
      if (!wanted(name)) continue;
      auto view = tensor_of(form);
      if (!view) return std::move(view).error();
      bound.push_back({name, *view});
    }
    for (const auto& [name, own] : {std::pair("A", problem_.arguments.A), std::pair("B", problem_.arguments.B)}) {
      if (holds(operands, name) && !is_bound(name)) bound.push_back({name, own});
    }  // what is missing then, or too much: binding says so with its position
    for (const auto& [name, text] : outputs) {
      if (!holds(names, name) && holds(operands, name)) {
        return usage_error(name + " is an operand, and --out names outputs", "the epilogue returns " + joined(names),
                           "name one of these, or return " + name + " under another name");
      }
    }
    const bool line_binds_outputs = !bind_.outputs.empty() && options_.function.empty();
    std::vector<std::string> given;  // where the line names outputs, those and what --out names are all that is bound
    for (const std::string& name : names) {
      if (!line_binds_outputs || bind_.outputs.count(name) != 0 || outputs.count(name) != 0) given.push_back(name);
    }
    for (const auto& [name, text] : outputs) {
      if (!holds(names, name)) given.push_back(name);
    }
    for (const auto& [name, form] : bind_.outputs) {
      if (!holds(names, name) && !holds(given, name) && line_binds_outputs) given.push_back(name);
    }
    std::map<std::string, OutputShape> values;
    if (epilogue_) {
      problem_.arguments.epilogue = EpilogueArguments(*epilogue_, bound);
      if (const auto known = output_shapes(problem_.arguments)) {
        for (const OutputShape& value : *known) values.emplace(value.name, value);
      }  // else it fails again where all is bound, which says why
    }
    for (const std::string& name : given) {
      if (is_bound(name)) continue;
      auto view = output(name, outputs, values);
      if (!view) return std::move(view).error();
      if (name == "D" && !holds(names, name)) {
        problem_.arguments.out = *view;  // where D is not returned, that is what is said
      } else {
        bound.push_back({name, *view});
      }
    }
    if (epilogue_) {
      problem_.arguments.epilogue = EpilogueArguments(*epilogue_, std::move(bound));
    } else {
      problem_.arguments.out = *bound.front().value.tensor();
    }
    return {};
  }

  // NAME=FILE, NAME=[M,N]:f32, or NAME=FILE@[M,N]:f32; what is missing comes from the bind line, else it is the shape
  // of the value in the type of A; of integers in the accumulator's, or the value's where that is a float.
  Result<TensorView> output(const std::string& name, const std::map<std::string, std::string>& given,
                            const std::map<std::string, OutputShape>& values) {
    Form form;
    const auto bound = bind_.outputs.find(name);
    bool has_shape = bound != bind_.outputs.end();  // it may be []
    if (has_shape) form = bound->second;
    if (const auto at = given.find(name); at != given.end()) {
      std::string file = at->second;
      const size_t mark = file.starts_with('[') ? 0 : file.find("@[");
      if (mark != std::string::npos) {
        const std::string item = name + "=" + file;
        auto wanted = parse_form(item, item.find('[', name.size() + 1 + mark), "--out");
        if (!wanted) return std::move(wanted).error();
        form = *wanted;
        has_shape = true;
      }
      if (mark != 0) problem_.output_files.emplace_back(name, file.substr(0, mark));
    }
    if (!options_.out_dtype.empty() && name == "D") form.dtype = options_.out_dtype;
    if (!has_shape) form.shape = batched_ ? "batch,M,N" : "M,N";
    if (!has_shape && form.dtype.empty()) form.dtype = "out";
    const auto known = values.find(name);
    DType dtype{};
    if (!take(form.dtype == "out" ? Result<DType>(output_dtype(known == values.end() ? nullptr : &known->second))
                                  : dtype_named(form.dtype),
              dtype)) {
      return *error_;
    }
    Dims shape;
    if (!has_shape && known != values.end()) {
      shape = known->second.shape;
    } else if (!take(parse_shape(form.shape, sizes_), shape)) {
      return *error_;
    }
    auto view = reserve(dtype, shape);
    if (data_ && view) problem_.fills.push_back({*view, true});
    return view;
  }

  [[nodiscard]] Result<void> places() const {
    if (auto ok = check_formats(problem_.output_files); !ok) return ok;
    Places places{.tensors = problem_.output_files, .files = {}, .inputs = problem_.input_files};
    places.force = options_.force;
    if (!options_.report.empty()) places.files.emplace_back("the report", options_.report);
    return check_places(places);
  }

  static constexpr size_t lazy_bytes = size_t{16} << 20;  // below, memory is taken at once
  const GemmOptions& options_;
  bool data_;
  uintptr_t next_place_ = uintptr_t{1} << 46;
  GemmProblem problem_;
  std::optional<Epilogue> epilogue_;
  BindLine bind_;
  DType a_dtype_ = f32, b_dtype_ = f32;
  GemmSizes sizes_;
  bool batched_ = false;
  std::optional<Error> error_;
};

}  // namespace

Result<Numerics> numerics_of(const GemmOptions& options) {
  const auto math = math_mode_from_name(options.math);
  if (!math) {
    return unknown_word("math mode", options.math, "--math",
                        {"strict", "3xtf32", "tf32", "fp8_fast_accum", "fp8_two_level_accum"});
  }
  return Numerics{options.strict, *math};
}

Result<GemmProblem> build_problem(const GemmOptions& options, bool data) { return Builder(options, data).build(); }

void fill_data(const GemmProblem& problem) {
  for (const GemmProblem::Fill& fill : problem.fills) {
    if (fill.output) {
      fill_poison(fill.view);
    } else {
      fill_random(fill.view, fill.seed, fill.distribution);
    }
  }
}

}  // namespace codetta::cli
