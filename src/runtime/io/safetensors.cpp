// SPDX-License-Identifier: Apache-2.0
// The header is read by an event handler: nothing nests deeper than three levels, keys must be unique, order is kept.
#include "runtime/io/safetensors.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "base/text.hpp"
#include "codetta/io.hpp"

namespace codetta::runtime::io {
namespace {

constexpr uint64_t largest_header = 100'000'000;
constexpr std::string_view metadata = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr DTypeName dtype_names[] = {{DType::boolean, "BOOL"},   {DType::i8, "I8"},          {DType::i16, "I16"},
                                     {DType::i32, "I32"},        {DType::i64, "I64"},        {DType::u8, "U8"},
                                     {DType::u16, "U16"},        {DType::u32, "U32"},        {DType::u64, "U64"},
                                     {DType::f8e4m3, "F8_E4M3"}, {DType::f8e5m2, "F8_E5M2"}, {DType::f16, "F16"},
                                     {DType::bf16, "BF16"},      {DType::f32, "F32"},        {DType::f64, "F64"}};

struct Entry {
  std::string name, dtype;
  std::vector<uint64_t> shape, offsets;
  bool seen[3] = {};  // dtype, shape, data_offsets
};

std::string shown(const std::string& name) { return name.size() <= 60 ? name : name.substr(0, 57) + "..."; }

// Takes exactly the prescribed form; every event that does not fit where it comes ends the reading.
class HeaderEvents {
 public:
  std::vector<Entry> entries;
  std::string problem;

  bool start_object(size_t) {
    switch (state_) {
      case State::Start:
        return enter(State::Names);
      case State::MetadataValue:
        return enter(State::Metadata);
      case State::TensorValue:
        return enter(State::Tensor);
      default:
        return misplaced("an object");
    }
  }
  bool end_object() {
    if (state_ == State::Names) return enter(State::End);
    if (state_ == State::Tensor) {
      const Entry& entry = entries.back();
      if (!entry.seen[0] || !entry.seen[1] || !entry.seen[2])
        return fail(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", shown(entry.name)));
    }
    return enter(State::Names);
  }
  bool key(std::string& name) {
    if (state_ == State::Names) {
      if (!names_.insert(name).second) return fail(fmt::format("'{}' is there twice", shown(name)));
      if (name == metadata) return enter(State::MetadataValue);
      entries.emplace_back().name = name;
      return enter(State::TensorValue);
    }
    if (state_ == State::Metadata) return enter(State::MetadataText);
    static constexpr std::string_view fields[] = {"dtype", "shape", "data_offsets"};
    static constexpr State values[] = {State::DTypeValue, State::ShapeValue, State::OffsetsValue};
    for (size_t i = 0; i < 3; ++i) {
      if (name != fields[i]) continue;
      if (std::exchange(entries.back().seen[i], true))
        return fail(fmt::format("tensor '{}' has {} twice", shown(entries.back().name), name));
      return enter(values[i]);
    }
    return fail(fmt::format("tensor '{}' has the unknown key '{}'", shown(entries.back().name), shown(name)));
  }
  bool string(std::string& value) {
    if (state_ == State::MetadataText) return enter(State::Metadata);
    if (state_ != State::DTypeValue) return misplaced("a string");
    entries.back().dtype = value;
    return enter(State::Tensor);
  }
  bool start_array(size_t) {
    if (state_ == State::ShapeValue) return enter(State::Shape);
    if (state_ == State::OffsetsValue) return enter(State::Offsets);
    return misplaced("a list");
  }
  bool end_array() { return enter(State::Tensor); }
  bool number_unsigned(uint64_t value) {
    if (state_ != State::Shape && state_ != State::Offsets) return misplaced("a number");
    std::vector<uint64_t>& list = state_ == State::Shape ? entries.back().shape : entries.back().offsets;
    if (list.size() == most_numbers)
      return fail(
          fmt::format("tensor '{}' has a list of more than {} numbers", shown(entries.back().name), most_numbers));
    list.push_back(value);
    return true;
  }
  bool number_integer(int64_t) { return fail("a size or offset is negative"); }
  bool number_float(double, const std::string&) { return fail("a size or offset is no integer or exceeds 64 bits"); }
  bool null() { return misplaced("null"); }
  bool boolean(bool) { return misplaced("a truth value"); }
  bool binary(nlohmann::json::binary_t&) { return misplaced("binary data"); }
  template <class Exception>
  bool parse_error(size_t position, const std::string&, const Exception&) {
    return fail(fmt::format("it is no JSON at byte {}", position));
  }

 private:
  enum class State : uint8_t {
    Start,
    Names,
    MetadataValue,
    Metadata,
    MetadataText,
    TensorValue,
    Tensor,
    DTypeValue,
    ShapeValue,
    Shape,
    OffsetsValue,
    Offsets,
    End
  };
  static constexpr size_t most_numbers = 64;

  bool enter(State state) {
    state_ = state;
    return true;
  }
  bool misplaced(std::string_view what) { return fail(fmt::format("{} stands where none belongs", what)); }
  bool fail(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }
  State state_ = State::Start;
  std::unordered_set<std::string> names_;
};

// What an entry says, checked.
struct Placed {
  DType dtype;
  Dims shape;
  uint64_t begin, end;
};

Result<Placed> checked(const Source& source, const Entry& entry, uint64_t data_size) {
  const auto* known = std::find_if(std::begin(dtype_names), std::end(dtype_names),
                                   [&](const DTypeName& n) { return n.name == entry.dtype; });
  if (known == std::end(dtype_names)) {
    return unsupported_dtype(source,
                             fmt::format("'{}' with elements of type '{}'", shown(entry.name), shown(entry.dtype)))
        .reason("Codetta reads BOOL, I8 to I64, U8 to U64, F8_E4M3, F8_E5M2, F16, BF16, F32 and F64")
        .help("convert the tensor before saving it");
  }
  const auto bad = [&](const std::string& reason) {
    return malformed(source, fmt::format("lies about tensor '{}'", shown(entry.name))).reason(reason);
  };
  Placed tensor{known->dtype, {}, 0, 0};
  if (entry.shape.size() > static_cast<size_t>(max_rank))
    return bad(fmt::format("it has {} dims; at most {} are possible", entry.shape.size(), max_rank));
  for (const uint64_t size : entry.shape) {
    if (size > static_cast<uint64_t>(INT64_MAX)) return bad("a size exceeds 2^63");
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  if (entry.offsets.size() != 2) return bad(fmt::format("data_offsets has {} numbers, not 2", entry.offsets.size()));
  tensor.begin = entry.offsets[0];
  tensor.end = entry.offsets[1];
  if (tensor.begin > tensor.end || tensor.end > data_size) {
    return bad(fmt::format("its data_offsets are [{}, {}] of {} bytes", tensor.begin, tensor.end, data_size));
  }
  const auto bytes = byte_count(tensor.shape, tensor.dtype);
  if (!bytes || static_cast<uint64_t>(*bytes) != tensor.end - tensor.begin) {
    return bad(fmt::format("{}{} takes {} bytes, data_offsets give it {}", dtype_name(tensor.dtype),
                           to_string(tensor.shape), bytes ? std::to_string(*bytes) : "more than 2^63",
                           tensor.end - tensor.begin));
  }
  return tensor;
}

// What a file holds, all of it checked.
struct Listing {
  std::vector<Entry> entries;
  std::vector<Placed> tensors;  // by entry
  uint64_t data = 0;            // where the data begin
};

Result<Listing> read_listing(const Source& source) {
  unsigned char start[8] = {};
  const uint64_t size = source.size();
  if (size < 8)
    return malformed(source, "is no .safetensors file")
        .reason(fmt::format("it has {} bytes, a header takes more", size));
  CODETTA_CHECK_OK(source.read(0, start, 8));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | start[i];
  if (length > size - 8 || length > largest_header) {
    return malformed(source, "has a lying header")
        .reason(fmt::format("its header is said to have {} bytes; the file has {}, and {} are the limit", length, size,
                            largest_header));
  }
  std::string text(static_cast<size_t>(length), '\0');
  CODETTA_CHECK_OK(source.read(8, text.data(), text.size()));
  HeaderEvents events;
  if (text.empty() || text[0] != '{')
    events.problem = "it does not begin with '{'";
  else if (!nlohmann::json::sax_parse(text, &events) && events.problem.empty())
    events.problem = "it is no JSON";
  if (!events.problem.empty()) return malformed(source, "has a malformed header").reason(events.problem);

  const uint64_t data = 8 + length;
  std::vector<Placed> tensors;
  for (const Entry& entry : events.entries) {
    CODETTA_TRY(const Placed tensor, checked(source, entry, size - data));
    tensors.push_back(tensor);
  }
  // Together the tensors must cover the data exactly once.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Placed& tensor : tensors) ranges.emplace_back(tensor.begin, tensor.end);
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) {
      return malformed(source, begin < at ? "has tensors that overlap" : "has a hole between its tensors")
          .reason(fmt::format("the data up to byte {} is taken; the next tensor begins at byte {}", at, begin));
    }
    at = end;
  }
  if (at != size - data)
    return malformed(source, "has bytes after its data")
        .reason(fmt::format("the tensors end at byte {} of {}", at, size - data));

  return Listing{std::move(events.entries), std::move(tensors), data};
}

}  // namespace

Result<NamedTensors> read_safetensors(const Source& source) {
  CODETTA_TRY(Listing listing, read_listing(source));
  NamedTensors result;
  for (size_t i = 0; i < listing.tensors.size(); ++i) {
    const Placed& placed = listing.tensors[i];
    CODETTA_TRY(Tensor tensor, read_tensor(source, listing.data + placed.begin, placed.dtype, placed.shape));
    result.emplace_back(std::move(listing.entries[i].name), std::move(tensor));
  }
  return result;
}

static Result<std::vector<SafetensorsEntry>> list_safetensors(const Source& source) {
  CODETTA_TRY(Listing listing, read_listing(source));
  std::vector<SafetensorsEntry> result;
  for (size_t i = 0; i < listing.tensors.size(); ++i)
    result.push_back({std::move(listing.entries[i].name), listing.tensors[i].dtype, listing.tensors[i].shape});
  return result;
}

static Result<Tensor> read_safetensor(const Source& source, const std::string& path, const std::string& name) {
  CODETTA_TRY(const Listing listing, read_listing(source));
  std::vector<std::string> names;
  for (size_t i = 0; i < listing.tensors.size(); ++i) {
    const Placed& placed = listing.tensors[i];
    if (listing.entries[i].name == name)
      return read_tensor(source, listing.data + placed.begin, placed.dtype, placed.shape);
    if (names.size() < 16) names.push_back(shown(listing.entries[i].name));
  }
  const bool more = names.size() < listing.entries.size();
  return diag::error(diag::Code::file_unreadable, fmt::format("{} has no tensor '{}'", path, shown(name)))
      .reason(names.empty() ? "it holds none"
                            : fmt::format("it holds {}{}", fmt::join(names, ", "), more ? ", ..." : ""))
      .help("list_safetensors tells the names of a file");
}

Result<std::string> safetensors_bytes(const std::string& path,
                                      const std::vector<std::pair<std::string, TensorView>>& tensors) {
  std::string header = "{", data;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, view] : tensors) {
    if (!names.insert(name).second) {
      return diag::error(diag::Code::argument_duplicate, fmt::format("two tensors are called '{}'", shown(name)))
          .reason("they were to be written to " + path)
          .help("give each tensor of a file a name of its own");
    }
    if (name == metadata || !base::is_valid_utf8(name)) {
      return diag::error(diag::Code::argument_unexpected,
                         fmt::format("a tensor can not be written as '{}'", shown(name)))
          .reason(name == metadata ? "safetensors files keep remarks under that name" : "it is not valid UTF-8")
          .help("give it another name");
    }
    CODETTA_CHECK_OK(check_memory(view));
    const auto* known = std::find_if(std::begin(dtype_names), std::end(dtype_names),
                                     [&](const DTypeName& n) { return n.dtype == view.dtype(); });
    const size_t begin = data.size();
    data += row_major_bytes(view);
    std::string shape;
    for (const int64_t dim : view.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ",", dim);
    header +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", names.size() > 1 ? "," : "",
                    nlohmann::json(name).dump(), known->name, shape, begin, data.size());
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + data;
}

}  // namespace codetta::runtime::io

namespace codetta {

Result<std::vector<std::pair<std::string, Tensor>>> read_safetensors(const std::string& path) {
  CODETTA_TRY(const runtime::io::Source source, runtime::io::Source::open(path));
  return runtime::io::read_safetensors(source);
}

Result<std::vector<SafetensorsEntry>> list_safetensors(const std::string& path) {
  CODETTA_TRY(const runtime::io::Source source, runtime::io::Source::open(path));
  return runtime::io::list_safetensors(source);
}

Result<Tensor> read_safetensor(const std::string& path, const std::string& name) {
  CODETTA_TRY(const runtime::io::Source source, runtime::io::Source::open(path));
  return runtime::io::read_safetensor(source, path, name);
}

Result<void> write_safetensors(const std::string& path,
                               const std::vector<std::pair<std::string, TensorView>>& tensors) {
  CODETTA_TRY(const std::string bytes, runtime::io::safetensors_bytes(path, tensors));
  const auto written = base::write_file_atomically(path, bytes);
  if (!written) return runtime::io::unwritable(path, written.error().message());
  return {};
}

}  // namespace codetta
