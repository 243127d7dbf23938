// SPDX-License-Identifier: Apache-2.0
// Private to the room: what the run-time compilers of both vendors have alike.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "toolchain/nvrtc.hpp"

namespace codetta::toolchain {

// Takes functions of a library by their names.
class TakenFunctions {
 public:
  explicit TakenFunctions(void* library) : library_(library) {}
  template <class Function>
  void operator()(Function& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<Function>>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  [[nodiscard]] const char* missing() const { return missing_; }  // the first that is not there, or nullptr

 private:
  void* library_;
  const char* missing_ = nullptr;
};

// What a compiler holds of a program: a binary, a text, a log. Empty where there is none.
template <class Program>
std::string bytes_of(Program program, int (*size)(Program, size_t*), int (*get)(Program, char*)) {
  constexpr int success = 0;
  size_t bytes = 0;
  if (size(program, &bytes) != success || bytes == 0) return {};
  std::string result(bytes, '\0');
  if (get(program, result.data()) != success) return {};
  return result;
}

// Headers as such a compiler wants them, as C strings: views into embedded files need not end in one.
class HeaderTexts {
 public:
  explicit HeaderTexts(const std::vector<CudaHeader>& headers) {
    for (const CudaHeader& header : headers) {
      names_.emplace_back(header.path);
      texts_.emplace_back(header.text);
    }
    for (const std::string& name : names_) name_pointers_.push_back(name.c_str());
    for (const std::string& text : texts_) text_pointers_.push_back(text.c_str());
  }
  HeaderTexts(const HeaderTexts&) = delete;
  HeaderTexts& operator=(const HeaderTexts&) = delete;
  [[nodiscard]] int count() const { return static_cast<int>(names_.size()); }
  [[nodiscard]] const char* const* texts() const { return text_pointers_.data(); }
  [[nodiscard]] const char* const* names() const { return name_pointers_.data(); }

 private:
  std::vector<std::string> names_, texts_;
  std::vector<const char*> name_pointers_, text_pointers_;
};

}  // namespace codetta::toolchain
