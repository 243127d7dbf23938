// SPDX-License-Identifier: Apache-2.0
// Code objects of AMD GPUs: 64-bit little-endian ELF with a note "AMDGPU" of type 32 that holds MessagePack. Bytes are
// not trusted: every offset is checked, and nesting is bounded.
#include <cstring>
#include <optional>

#include "base/expected.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {
namespace {

constexpr uint32_t metadata_note = 32;
constexpr int deepest = 16;

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] size_t at() const { return at_; }
  // Little-endian.
  uint64_t little(int size) {
    const std::string_view part = take(static_cast<size_t>(size));
    uint64_t value = 0;
    for (size_t i = part.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(part[i]);
    return value;
  }
  uint64_t big(int size) {
    uint64_t value = 0;
    for (const char c : take(static_cast<size_t>(size))) value = value << 8 | static_cast<uint8_t>(c);
    return value;
  }
  std::string_view take(size_t size) {
    if (!ok_ || size > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  void fail() { ok_ = false; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// What stands at the reader's place: a number, a text, or the size of an array or a map that follows.
struct Item {
  enum class Kind : uint8_t { Other, Number, Text, Array, Map } kind = Kind::Other;
  uint64_t number = 0;  // or count
  std::string_view text;
};
Item read_item(Bytes& in) {
  const auto tag = static_cast<uint8_t>(in.big(1));
  const auto text = [&](uint64_t size) { return Item{Item::Kind::Text, 0, in.take(static_cast<size_t>(size))}; };
  if (tag < 0x80) return {Item::Kind::Number, tag, {}};
  if (tag < 0x90) return {Item::Kind::Map, tag & 0xfu, {}};
  if (tag < 0xa0) return {Item::Kind::Array, tag & 0xfu, {}};
  if (tag < 0xc0) return text(tag & 0x1fu);
  if (tag >= 0xe0) return {Item::Kind::Number, 0, {}};  // negative: none is asked for
  switch (tag) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return {Item::Kind::Number, tag == 0xc3 ? 1u : 0u, {}};
    case 0xc4:
    case 0xd9:
      return text(in.big(1));
    case 0xc5:
    case 0xda:
      return text(in.big(2));
    case 0xc6:
    case 0xdb:
      return text(in.big(4));
    case 0xcc:
    case 0xd0:
      return {Item::Kind::Number, in.big(1), {}};
    case 0xcd:
    case 0xd1:
      return {Item::Kind::Number, in.big(2), {}};
    case 0xca:
    case 0xce:
    case 0xd2:
      return {Item::Kind::Number, in.big(4), {}};
    case 0xcb:
    case 0xcf:
    case 0xd3:
      return {Item::Kind::Number, in.big(8), {}};
    case 0xdc:
      return {Item::Kind::Array, in.big(2), {}};
    case 0xdd:
      return {Item::Kind::Array, in.big(4), {}};
    case 0xde:
      return {Item::Kind::Map, in.big(2), {}};
    case 0xdf:
      return {Item::Kind::Map, in.big(4), {}};
    default:
      in.fail();
      return {};
  }
}
void skip(Bytes& in, int depth) {
  if (depth > deepest) in.fail();
  const Item item = read_item(in);
  const uint64_t count = item.kind == Item::Kind::Map     ? 2 * item.number
                         : item.kind == Item::Kind::Array ? item.number
                                                          : 0;
  for (uint64_t i = 0; i < count && in.ok(); ++i) skip(in, depth + 1);
}

PtxasRemarks read_kernel(Bytes& in) {
  PtxasRemarks facts;
  const Item map = read_item(in);
  if (map.kind != Item::Kind::Map) in.fail();
  for (uint64_t i = 0; i < map.number && in.ok(); ++i) {
    const Item key = read_item(in);
    const bool number = key.text == ".vgpr_count" || key.text == ".vgpr_spill_count" ||
                        key.text == ".group_segment_fixed_size" || key.text == ".private_segment_fixed_size";
    if (!number && key.text != ".name") {
      skip(in, 0);
      continue;
    }
    const Item value = read_item(in);
    if (value.kind != (number ? Item::Kind::Number : Item::Kind::Text)) in.fail();
    const auto count = static_cast<int64_t>(value.number & 0xffffffffu);
    if (key.text == ".name") facts.kernel = value.text;
    if (key.text == ".vgpr_count") facts.registers = static_cast<int>(count);
    if (key.text == ".vgpr_spill_count") facts.spill_store_bytes = facts.spill_load_bytes = 4 * count;
    if (key.text == ".group_segment_fixed_size") facts.shared_bytes = count;
    if (key.text == ".private_segment_fixed_size") facts.stack_bytes = count;
  }
  return facts;
}

// Where the list of kernels stands in the metadata, and how many it has.
struct KernelList {
  size_t begin = 0, elements = 0, end = 0;
  uint64_t count = 0;
};
std::optional<KernelList> find_kernels(std::string_view text) {
  Bytes in(text);
  const Item map = read_item(in);
  if (map.kind != Item::Kind::Map) return std::nullopt;
  std::optional<KernelList> found;
  for (uint64_t i = 0; i < map.number && in.ok(); ++i) {
    if (read_item(in).text != "amdhsa.kernels") {
      skip(in, 0);
      continue;
    }
    KernelList list;
    list.begin = in.at();
    const Item head = read_item(in);
    if (head.kind != Item::Kind::Array) return std::nullopt;
    list.elements = in.at();
    for (list.count = 0; list.count < head.number && in.ok(); ++list.count) skip(in, 0);
    list.end = in.at();
    found = list;
  }
  return in.ok() ? found : std::nullopt;
}

std::optional<std::vector<PtxasRemarks>> read_metadata(std::string_view text) {
  const auto list = find_kernels(text);
  if (!list) return std::nullopt;
  Bytes in(text.substr(list->elements));
  std::vector<PtxasRemarks> kernels;
  for (uint64_t k = 0; k < list->count && in.ok(); ++k) kernels.push_back(read_kernel(in));
  if (!in.ok()) return std::nullopt;
  return kernels;
}

// The descriptor of the note, among those of one section.
std::optional<std::string_view> find_note(std::string_view section) {
  Bytes in(section);
  while (in.ok() && !in.at_end()) {
    const uint64_t name_size = in.little(4), size = in.little(4), type = in.little(4);
    const auto padded = [](uint64_t n) { return static_cast<size_t>((n + 3) / 4 * 4); };
    const std::string_view name = in.take(padded(name_size));
    const std::string_view bytes = in.take(padded(size));
    if (in.ok() && type == metadata_note && name.starts_with("AMDGPU"))
      return bytes.substr(0, static_cast<size_t>(size));
  }
  return std::nullopt;
}

// The first note with metadata of an object: where the header of its section stands, that section, and the metadata.
struct Metadata {
  size_t header = 0;
  std::string_view section, text;
};
struct NoMetadata {
  const char* why;
};
base::Expected<Metadata, NoMetadata> find_metadata(std::string_view object) {
  constexpr std::string_view magic("\177ELF\2\1", 6);
  if (object.size() < 64 || !object.starts_with(magic)) return NoMetadata{"it is no 64-bit ELF file"};
  const auto field = [&](size_t at, int size) { return Bytes(object.substr(at)).little(size); };
  constexpr uint64_t amdgpu = 224;
  if (field(18, 2) != amdgpu) return NoMetadata{"it is not for AMD GPUs"};
  const uint64_t table = field(40, 8), entry = field(58, 2), count = field(60, 2);
  for (uint64_t i = 0; i < count; ++i) {
    if (entry < 64 || table > object.size() || (i + 1) * entry > object.size() - table) break;
    Metadata found;
    found.header = static_cast<size_t>(table + i * entry);
    Bytes header(object.substr(found.header));
    (void)header.little(4);
    const uint64_t type = header.little(4);
    (void)header.take(16);
    const uint64_t offset = header.little(8), size = header.little(8);
    if (type != 7 || offset > object.size() || size > object.size() - offset) continue;  // SHT_NOTE
    found.section = object.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
    const auto note = find_note(found.section);
    if (!note) continue;
    found.text = *note;
    return found;
  }
  return NoMetadata{"it has no note with metadata"};
}

void append(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xffu));
}

// Offset and size of a section, in its header.
void place_section(std::string& object, size_t header, uint64_t offset, uint64_t size) {
  std::string place;
  append(place, offset, 8);
  append(place, size, 8);
  object.replace(header + 24, place.size(), place);
}

}  // namespace

Result<std::vector<PtxasRemarks>> read_code_object(std::string_view object, const std::string& label) {
  const auto damaged = [&](const char* why) -> Error {
    return diag::error(diag::Code::compiler_failed, "the compiler's code object of '" + label + "' can not be read")
        .reason(why)
        .help("check that the compiler is Clang 19 or later, with its own lld");
  };
  const auto found = find_metadata(object);
  if (!found) return damaged(found.error().why);
  auto kernels = read_metadata(found->text);
  if (!kernels) return damaged("its metadata is no MessagePack of kernels");
  return *std::move(kernels);
}

bool join_metadata(std::string& object, std::string& other) {
  const auto ours = find_metadata(object), theirs = find_metadata(other);
  if (!ours || !theirs) return false;
  const auto list = find_kernels(ours->text), more = find_kernels(theirs->text);
  constexpr uint64_t name_and_sizes = 20;  // and type
  const auto alone = [](const Metadata& m) { return m.section.size() - m.text.size() < name_and_sizes + 4; };
  if (!list || !more || !alone(*ours) || !alone(*theirs) || list->count + more->count > 0xffff) return false;
  std::string joined(ours->text.substr(0, list->begin));
  joined += '\xdc';  // an array, its size in two bytes
  joined += static_cast<char>((list->count + more->count) >> 8);
  joined += static_cast<char>((list->count + more->count) & 0xffu);
  joined += ours->text.substr(list->elements, list->end - list->elements);
  joined += theirs->text.substr(more->elements, more->end - more->elements);
  joined += ours->text.substr(list->end);
  std::string note;
  append(note, 7, 4);
  append(note, joined.size(), 4);
  append(note, metadata_note, 4);
  note += std::string_view("AMDGPU\0\0", 8);
  note += joined;
  note.resize((note.size() + 3) / 4 * 4);
  const size_t header = ours->header;
  place_section(other, theirs->header, static_cast<uint64_t>(theirs->section.data() - other.data()), 0);
  object.resize((object.size() + 7) / 8 * 8);
  place_section(object, header, object.size(), note.size());
  object += note;
  return true;
}

}  // namespace codetta::toolchain
