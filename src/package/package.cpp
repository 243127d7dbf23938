// SPDX-License-Identifier: Apache-2.0
// The file form of a package: "CODETTA\n", format, fields, and a digest of all that comes before it.
#include "package/package.hpp"

#include <fmt/format.h>

#include "base/digest.hpp"
#include "package/serialize.hpp"

namespace codetta::package {
namespace {

constexpr std::string_view magic = "CODETTA\n";
constexpr uint64_t max_items = 1 << 24;
constexpr uint64_t max_blob = uint64_t{1} << 31;
constexpr size_t digest_bytes = 32;

// How a variant's alternatives are numbered in files: by their index; append only.
template <class Variant>
constexpr uint64_t alternatives = std::variant_size_v<Variant>;

void write(ByteWriter& out, const Guard& guard) {
  out.number(guard.index());
  if (const auto* equal = std::get_if<EqualGuard>(&guard)) {
    out.dim(equal->left);
    out.dim(equal->right);
    out.text(equal->why);
  } else if (const auto* unit = std::get_if<UnitStrideGuard>(&guard)) {
    out.number(unit->buffer);
  } else if (const auto* overlap = std::get_if<NoOverlapGuard>(&guard)) {
    out.number(overlap->output);
    out.number(overlap->other);
    out.flag(overlap->in_place_ok);
  }
}

Guard read_guard(ByteReader& in) {
  switch (in.number_up_to(alternatives<Guard> - 1, "guard")) {
    case 0: {
      EqualGuard guard;
      guard.left = in.dim();
      guard.right = in.dim();
      guard.why = in.text(max_name_bytes, "length of a reason");
      return guard;
    }
    case 1:
      return UnitStrideGuard{in.index("buffer")};
    default: {
      NoOverlapGuard guard;
      guard.output = in.index("buffer");
      guard.other = in.index("buffer");
      guard.in_place_ok = in.flag();
      return guard;
    }
  }
}

void write(ByteWriter& out, const Kernel& kernel) {
  out.text(kernel.name);
  write_config(out, kernel.config);
  write(out, kernel.epilogue);
  out.text(kernel.source);
  for (const auto* flags : {&kernel.gcc_flags, &kernel.clang_flags, &kernel.nvrtc_flags}) {
    out.number(flags->size());
    for (const std::string& flag : *flags) out.text(flag);
  }
  out.text(kernel.symbol);
  write_entries(out, kernel.entries);
  write_maps(out, kernel.maps);
  out.text(kernel.binary);
}

Kernel read_kernel(ByteReader& in) {
  Kernel kernel;
  kernel.name = in.text(max_name_bytes, "length of a name");
  kernel.config = read_config(in);
  kernel.epilogue = read_program(in);
  kernel.source = in.text(max_blob, "length of a source");
  for (auto* flags : {&kernel.gcc_flags, &kernel.clang_flags, &kernel.nvrtc_flags}) {
    for (size_t n = in.count(4096, "number of flags"); n > 0 && in.ok(); --n)
      flags->push_back(in.text(max_name_bytes, "length of a flag"));
  }
  kernel.symbol = in.text(max_name_bytes, "length of a symbol");
  kernel.entries = read_entries(in);
  kernel.maps = read_maps(in);
  kernel.binary = in.text(max_blob, "length of a binary");
  if (in.ok() && accumulator(kernel.config) != kernel.epilogue.accumulator)
    in.damage("a kernel and its epilogue accumulate in different types");
  return kernel;
}

void write(ByteWriter& out, const Buffer& buffer) {
  out.text(buffer.name);
  out.choice(buffer.role);
  out.choice(buffer.dtype);
  out.flag(buffer.is_scalar);
  write(out, buffer.shape);
  out.text(buffer.constant);
}

Buffer read_buffer(ByteReader& in) {
  Buffer buffer;
  buffer.name = in.text(max_name_bytes, "length of a name");
  buffer.role = in.choice<Buffer::Role>(4, "role of a buffer");
  buffer.dtype = in.dtype();
  buffer.is_scalar = in.flag();
  buffer.shape = read_shape(in);
  buffer.constant = in.text(max_blob, "length of a constant");
  return buffer;
}

struct StepWriter {
  ByteWriter& out;
  void operator()(const DefineSymbol& step) {
    out.text(step.symbol);
    out.number(step.buffer);
    out.integer(step.dim);
  }
  void operator()(const Check& step) { write(out, step.guard); }
  void operator()(const Allocate& step) {
    out.number(step.buffer);
    out.dim(step.offset);
  }
  void operator()(const Free& step) { out.number(step.buffer); }
  void operator()(const LaunchKernel& step) {
    out.number(step.kernel);
    out.number(step.a);
    out.number(step.b);
    out.flag(step.a_transposed);
    out.flag(step.b_transposed);
    for (const Dim* dim : {&step.batch, &step.m, &step.n, &step.k}) out.dim(*dim);
    out.number(step.arguments.size());
    for (uint32_t argument : step.arguments) out.number(argument);
  }
  void operator()(const Comment& step) { out.text(step.text); }
  void operator()(const Return&) {}
};

Step read_step(ByteReader& in) {
  switch (in.number_up_to(alternatives<Step> - 1, "step")) {
    case 0: {
      DefineSymbol step;
      step.symbol = in.text(max_name_bytes, "length of a symbol");
      step.buffer = in.index("buffer");
      step.dim = in.small(0, max_rank - 1, "dim");
      return step;
    }
    case 1:
      return Check{read_guard(in)};
    case 2: {
      Allocate step;
      step.buffer = in.index("buffer");
      step.offset = in.dim();
      return step;
    }
    case 3:
      return Free{in.index("buffer")};
    case 4: {
      LaunchKernel step;
      step.kernel = in.index("kernel");
      step.a = in.index("buffer");
      step.b = in.index("buffer");
      step.a_transposed = in.flag();
      step.b_transposed = in.flag();
      for (Dim* dim : {&step.batch, &step.m, &step.n, &step.k}) *dim = in.dim();
      for (size_t n = in.count(max_items, "number of arguments"); n > 0 && in.ok(); --n)
        step.arguments.push_back(in.index("buffer"));
      return step;
    }
    case 5:
      return Comment{in.text(max_name_bytes, "length of a comment")};
    default:
      return Return{};
  }
}

// References from steps to buffers and kernels.
struct StepDefect {
  const Package& package;
  bool buffer(uint32_t index) const { return index < package.buffers.size(); }
  bool operator()(const DefineSymbol& step) const {
    return !buffer(step.buffer) || static_cast<size_t>(step.dim) >= package.buffers[step.buffer].shape.size();
  }
  bool operator()(const Check& step) const {
    if (const auto* unit = std::get_if<UnitStrideGuard>(&step.guard)) return !buffer(unit->buffer);
    if (const auto* overlap = std::get_if<NoOverlapGuard>(&step.guard))
      return !buffer(overlap->output) || !buffer(overlap->other);
    return false;
  }
  bool operator()(const Allocate& step) const {
    return !buffer(step.buffer) || package.buffers[step.buffer].role != Buffer::Role::Temporary;
  }
  bool operator()(const Free& step) const {
    return !buffer(step.buffer) || package.buffers[step.buffer].role != Buffer::Role::Temporary;
  }
  bool operator()(const LaunchKernel& step) const {
    if (step.kernel >= package.kernels.size() || !buffer(step.a) || !buffer(step.b)) return true;
    const Kernel& kernel = package.kernels[step.kernel];
    const auto wrong_factor = [&](uint32_t index, DType dtype) {
      const Buffer& factor = package.buffers[index];
      return factor.is_scalar || factor.dtype != dtype || factor.shape.size() < 2 || factor.shape.size() > 3;
    };
    if (wrong_factor(step.a, a_dtype(kernel.config)) || wrong_factor(step.b, b_dtype(kernel.config))) return true;
    if (step.arguments.size() != kernel.epilogue.arguments.size()) return true;
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      if (!buffer(step.arguments[i])) return true;
      const Buffer& bound = package.buffers[step.arguments[i]];
      const Argument& wanted = kernel.epilogue.arguments[i];
      if (bound.is_scalar != wanted.is_scalar || bound.dtype != wanted.dtype) return true;
      if (wanted.is_output && bound.role != Buffer::Role::Output && bound.role != Buffer::Role::Temporary) return true;
    }
    return false;
  }
  bool operator()(const Comment&) const { return false; }
  bool operator()(const Return&) const { return false; }
};

}  // namespace

std::string Package::encode() const {
  ByteWriter out;
  out.raw(magic);
  out.number(package_format);
  out.text(name);
  out.choice(target.backend);
  out.choice(target.isa);
  out.text(target.arch);
  out.text(build_id);
  out.number(buffers.size());
  for (const Buffer& buffer : buffers) write(out, buffer);
  out.number(kernels.size());
  for (const Kernel& kernel : kernels) write(out, kernel);
  out.number(steps.size());
  for (const Step& step : steps) {
    out.number(step.index());
    std::visit(StepWriter{out}, step);
  }
  out.raw(base::digest_of(out.bytes()).hex());
  return std::move(out).take();
}

Result<Package> Package::decode(std::string_view bytes) {
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + digest_bytes) {
    return damaged(fmt::format("its {} bytes do not begin as a package does", bytes.size()));
  }
  const std::string_view body = bytes.substr(0, bytes.size() - digest_bytes);
  ByteReader in(body);
  in.raw(magic.size());
  if (const uint64_t format = in.number(); in.ok() && format != package_format) {
    return damaged(fmt::format("it has format {}, this library reads {}", format, package_format));
  }
  if (base::digest_of(body).hex() != bytes.substr(body.size())) return damaged("its digest is not that of its bytes");
  Package package;
  package.name = in.text(max_name_bytes, "length of a name");
  package.target.backend = in.choice<Backend>(5, "backend");
  package.target.isa = in.choice<CpuIsa>(7, "instruction set");
  package.target.arch = in.text(max_name_bytes, "length of a name");
  package.build_id = in.text(max_name_bytes, "length of a name");
  for (size_t n = in.count(max_items, "number of buffers"); n > 0 && in.ok(); --n)
    package.buffers.push_back(read_buffer(in));
  for (size_t n = in.count(max_items, "number of kernels"); n > 0 && in.ok(); --n)
    package.kernels.push_back(read_kernel(in));
  for (const Kernel& kernel : package.kernels) {
    if (in.ok() && std::holds_alternative<CudaGemmConfig>(kernel.config) != (package.target.backend == Backend::cuda))
      in.damage("a kernel is not for the package's target");
  }
  for (size_t n = in.count(max_items, "number of steps"); n > 0 && in.ok(); --n) package.steps.push_back(read_step(in));
  if (in.ok() && in.left() != 0) in.damage(fmt::format("{} bytes follow the package", in.left()));
  for (size_t i = 0; i < package.steps.size() && in.ok(); ++i) {
    if (std::visit(StepDefect{package}, package.steps[i]))
      in.damage(fmt::format("step {} does not fit the buffers and kernels", i));
  }
  if (!in.ok()) return damaged(in.reason());
  return package;
}

}  // namespace codetta::package
