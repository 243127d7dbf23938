// SPDX-License-Identifier: Apache-2.0
// The file form of a package: "CODETTA\n", format, fields, and a digest of all that comes before it.
#include "package/package.hpp"

#include <fmt/format.h>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "package/serialize.hpp"

namespace codetta::package {
namespace {

constexpr std::string_view magic = "CODETTA\n";
constexpr uint64_t max_blob = uint64_t{1} << 31;
constexpr size_t digest_bytes = 32;

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
  write(out, buffer.strides);
  out.dim(buffer.offset);
  write(out, buffer.begin);
  out.number(buffer.device);
  out.integer(buffer.alignment);
  out.text(buffer.external);
  out.flag(buffer.donated);
  write(out, buffer.filled);
}

Buffer read_buffer(ByteReader& in) {
  Buffer buffer;
  buffer.name = in.text(max_name_bytes, "length of a name");
  buffer.role = in.choice<Buffer::Role>(4, "role of a buffer");
  buffer.dtype = in.dtype();
  buffer.is_scalar = in.flag();
  buffer.shape = read_shape(in);
  buffer.constant = in.text(max_blob, "length of a constant");
  buffer.strides = read_shape(in);
  buffer.offset = in.dim();
  buffer.begin = read_shape(in);
  buffer.device = in.index("device");
  buffer.alignment = in.integer();
  buffer.external = in.text(max_name_bytes, "length of a name");
  buffer.donated = in.flag();
  buffer.filled = read_shape(in);
  return buffer;
}

void write(ByteWriter& out, const Pool& pool) {
  out.number(pool.device);
  out.dim(pool.bytes);
  out.integer(pool.alignment);
}

Pool read_pool(ByteReader& in) {
  Pool pool;
  pool.device = in.index("device");
  pool.bytes = in.dim();
  pool.alignment = in.integer();
  return pool;
}

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
  out.number(pools.size());
  for (const Pool& pool : pools) write(out, pool);
  for (const uint32_t count : {device_count, stream_count, event_count, result_count}) out.number(count);
  write(out, steps);
  out.number(step_lists.size());
  for (const StepList& list : step_lists) write(out, list);
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
  for (size_t n = in.count(max_items, "number of pools"); n > 0 && in.ok(); --n) package.pools.push_back(read_pool(in));
  for (uint32_t* count : {&package.device_count, &package.stream_count, &package.event_count, &package.result_count})
    *count = in.index("count");
  package.steps = read_steps(in);
  for (size_t n = in.count(max_items, "number of step lists"); n > 0 && in.ok(); --n)
    package.step_lists.push_back(read_steps(in));
  if (in.ok() && in.left() != 0) in.damage(fmt::format("{} bytes follow the package", in.left()));
  if (!in.ok()) return damaged(in.reason());
  CODETTA_CHECK_OK(check(package));
  return package;
}

Result<void> check(const Package& package) {
  if (const auto defect = find_defect(package)) return damaged(*defect);
  return {};
}

}  // namespace codetta::package
