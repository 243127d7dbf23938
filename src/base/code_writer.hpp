// SPDX-License-Identifier: Apache-2.0
// A writer of source text: lines with indentation, RAII blocks, named sections. The text depends on the calls only.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace codetta::base {

class CodeWriter {
 public:
  // Leaves a block: less indentation, then the closing line. Blocks close in the reverse order of their opening.
  class [[nodiscard]] Block {
   public:
    Block(Block&& other) noexcept : writer_(std::exchange(other.writer_, nullptr)), close_(std::move(other.close_)) {}
    Block& operator=(Block&&) = delete;
    ~Block() { end(); }
    void end();  // earlier than the destructor would

   private:
    friend class CodeWriter;
    Block(CodeWriter& writer, std::string close) : writer_(&writer), close_(std::move(close)) {}
    CodeWriter* writer_;
    std::string close_;
  };
  // Returns to the section (and its indentation) that was current before.
  class [[nodiscard]] Section {
   public:
    Section(Section&& other) noexcept : writer_(std::exchange(other.writer_, nullptr)), previous_(other.previous_) {}
    Section& operator=(Section&&) = delete;
    ~Section() {
      if (writer_ != nullptr) writer_->current_ = previous_;
    }

   private:
    friend class CodeWriter;
    Section(CodeWriter& writer, size_t previous) : writer_(&writer), previous_(previous) {}
    CodeWriter* writer_;
    size_t previous_;
  };

  // Sections join in this order; writing starts in the last one ("body" when none is named).
  explicit CodeWriter(std::initializer_list<std::string_view> sections = {"body"});
  CodeWriter(const CodeWriter&) = delete;  // open blocks point here
  CodeWriter& operator=(const CodeWriter&) = delete;

  // One line of pieces: texts, characters, integers, booleans (true, false). Floating point numbers need a literal
  // helper. A text with line ends inside becomes several indented lines.
  template <class... Pieces>
  void line(const Pieces&... pieces) {
    put_lines(text_of(pieces...));
  }
  // "pieces {" ... "}". block_with() takes another closing line, such as "};".
  template <class... Pieces>
  Block block(const Pieces&... pieces) {
    return block_with("}", pieces...);
  }
  template <class... Pieces>
  Block block_with(std::string close, const Pieces&... pieces) {
    std::string head = text_of(pieces...);
    put_lines(head.empty() ? "{" : head + " {");
    ++at().depth;
    return Block(*this, std::move(close));
  }
  // Deeper lines without braces.
  Block indent();
  // An empty line; several in a row, and those at a section's or block's beginning, become one or none.
  void blank() { at().blank = true; }
  // Text as it is, without indentation, ended by a line end if it has none.
  void raw(std::string_view text);

  // Makes the section current; a name that was not declared joins at the end.
  Section section(std::string_view name);
  // True the first time: for helpers that are emitted on demand.
  bool once(std::string_view key) { return seen_.insert(std::string(key)).second; }

  // All sections that hold text, one empty line between them.
  [[nodiscard]] std::string str() const;

  template <class... Pieces>
  static std::string text_of(const Pieces&... pieces) {
    std::string text;
    (append(text, pieces), ...);
    return text;
  }

 private:
  struct Part {
    std::string name;
    std::string text;
    uint32_t depth = 0;
    bool blank = false;
    bool fresh = true;  // nothing written since the section or block began
  };

  static void append(std::string& text, std::string_view piece) { text += piece; }
  static void append(std::string& text, const std::string& piece) { text += piece; }
  static void append(std::string& text, const char* piece) { text += piece; }
  static void append(std::string& text, char piece) { text += piece; }
  template <std::same_as<bool> T>
  static void append(std::string& text, T piece) {
    text += piece ? "true" : "false";
  }
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) static void append(std::string& text, T piece) {
    text += std::to_string(piece);
  }
  template <std::floating_point T>
  static void append(std::string& text, T piece) = delete;

  Part& at() { return parts_[current_]; }
  void put_lines(std::string_view text);
  void separate();
  void close(std::string_view text);

  std::vector<Part> parts_;
  size_t current_ = 0;
  std::set<std::string> seen_;
};

// "0x1.8p+0": the exact value, for finite numbers ("-0x0p+0" keeps its sign).
std::string hex_float(double value);
// C literals that carry every bit, with the shortest decimal as a comment: "0x1.8p+0f /* 1.5 */", "-__builtin_inff()",
// "__builtin_nanf(\"\")" (a NaN's payload and sign are not kept). Negative ones need a blank or parentheses before
// them.
std::string float_literal(float value);
std::string double_literal(double value);

}  // namespace codetta::base
