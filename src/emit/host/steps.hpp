// SPDX-License-Identifier: Apache-2.0
// Host steps as C++ statements over `Frame& frame` and `View* v` (device/host/support.h), for a GPU over `GpuFrame&
// frame` (device/host/gpu.h). Private to the room.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/code_writer.hpp"
#include "emit/host/cpp.hpp"
#include "emit/host/signature.hpp"

namespace codetta::emit::host {

// "static Status steps(Frame& frame) { ... }".
void print_steps(base::CodeWriter& out, const Library& library, const Program& program, size_t program_index);
// The same of a large program.
struct DividedSteps {
  std::string shared;                  // "struct Shared {...};"
  std::string first;                   // "Status steps(Frame& frame) {...}", which calls the first of the others
  std::string frame_type;              // "Frame"
  std::vector<std::string> functions;  // "Status steps_1(Frame& frame, Shared& s) {...}", each for a file of its own
};
// Nothing where the steps are short enough for one function.
std::optional<DividedSteps> divided_steps(const Library& library, const Program& program, size_t program_index);
// "constexpr GemmConfig config_0 = {...};".
void print_configuration(base::CodeWriter& out, size_t index, const package::Kernel& kernel);
// CPU: phases and reductions of an epilogue, set of `work`.
void print_phases(base::CodeWriter& out, const package::EpilogueProgram& program);
// CPU: opens a scope with how values are combined, and where sums are formed in another type: `how`, `wide`.
base::CodeWriter::Block begin_combined(base::CodeWriter& out, uint32_t target, package::ScatterReduce how);
// GPU: the tables of a kernel, as the object kernel_symbol() of namespace codetta::host.
void print_gpu_kernel(base::CodeWriter& out, const Program& program, size_t program_index, size_t index,
                      size_t library_index);
std::string kernel_symbol(size_t program_index, size_t index);
// Of kernels of Codetta's: of the main list, then of the child lists.
std::vector<const package::LaunchKernel*> launches_of(const package::Package& package);
std::vector<const package::Step*> sizes_read_by(const package::Package& package);  // from device memory, likewise
// Whether a map is the first that is launched, whatever sizes and values are: it can clear the counters of others.
bool starts_with_map(const package::Package& package);
bool has_launches(const package::Package& package);  // any of these
// Refuses a negative stride of a tensor that a kernel of the user's takes; `name`, `stride`: as text. `others`: another
// program may take the tensor.
void print_ascends(base::CodeWriter& out, int32_t dim, const std::string& name, const std::string& stride, bool others);
// GPU: a launch of a kernel of the user's, in a scope of its own; `number`: an expression as text.
void print_user_launch(base::CodeWriter& out, const package::Package& package, const package::LaunchKernel& step,
                       const std::string& symbol, const std::function<std::string(const types::Dim&)>& number);
// Of a constant's buffer: its place among the program's.
size_t slot_of(const Program& program, uint32_t buffer);
// CPU: which of a kernel's tensors have elements apart, which it does not take: "lies_apart(v[2]) || lies_apart(v[5])".
std::string apart_text(const Program& program, const package::EpilogueProgram& epilogue,
                       const std::vector<uint32_t>& arguments);
// CPU: a call of one; `function`: text of it.
void print_cpu_user(base::CodeWriter& out, const package::Package& package, const package::LaunchKernel& step,
                    const std::string& function);
// What such a launch has no text for; empty: nothing.
std::string lacking_in_user(const package::Package& package, const package::LaunchKernel& step,
                            const package::Kernel& kernel);
bool has_gpu_user(const package::Package& package);
// GPU: "struct Launches {...};", what the steps' launches are measured into.
void print_launches(base::CodeWriter& out, const Program& program);
// GPU: what the program's kernels look at in checked libraries, by name: "static constexpr const char* const looked[]".
void print_looked(base::CodeWriter& out, const Library& library, const Program& program);
// The same as steps with buffers; a step that looks at several stands there as often.
std::vector<std::pair<const package::Step*, uint32_t>> looked_at(const Library& library, const Program& program);
// What errors call a buffer whose contents are looked at.
const std::string& told_name(const Program& program, uint32_t buffer);
// Whether any program of the function of this one looks at contents.
bool function_looks(const Library& library, size_t program_index);
// GPU: steps on elements as launches of the program's kernel for them (device/host/gpu_elements.h); one step of it.
struct ElementSteps {
  base::CodeWriter& out;
  const Library& library;
  const Program& program;
  size_t program_index;
  const package::Step* step;

  [[nodiscard]] std::string kernel() const;
  void index_put(const package::IndexPut& put) const;
  void scatter(const package::Scatter& scatter) const;
  void copy(const package::Copy& copy) const;
  void fill(const package::Fill& fill) const;
  // A size in device memory; `head`: what define_value() takes first.
  void size(const package::DefineSymbol& define, const std::string& head, const std::string& divisor) const;
  void look(uint32_t buffer, const char* looks, const std::string& limit) const;

 private:
  [[nodiscard]] std::string named(uint32_t buffer) const;  // "v[3], \"x\""
  [[nodiscard]] int64_t number() const;                    // of the step, among what kernels look at; -1: it doesn't
};
// Of operand `i` of a table of launches: what its gathered dims are.
void print_gathered(base::CodeWriter& out, const std::string& table, size_t i, const package::Operand& operand,
                    uint32_t b);
// What a kernel takes by value as a table of the CPU's or the GPU's kind: numbers among its arguments, whose buffers
// are `arguments`, and sizes behind them.
bool takes_numbers(const package::EpilogueProgram& program);
void print_numbers(base::CodeWriter& out, const std::string& table, const package::EpilogueProgram& program,
                   const std::vector<uint32_t>& arguments, bool gpu,
                   const std::function<std::string(const types::Dim&)>& number);
// Packs B of a launch into packed_<step> while the library starts.
void print_packing(base::CodeWriter& out, const Program& program, const PackedFactor& packed);

// Why this backend has no text for the program: the first step or kernel that it lacks; nullopt: it has all.
std::optional<std::string> missing_feature(const Program& program);

// Functions of one program, which are public or called by a table of sizes: "call_2".
std::string program_function(const char* part, size_t program_index);
inline constexpr const char* exported_head = "__attribute__((visibility(\"default\"))) ";
// What they take: "const void* p0, void* p1, i64 q0, ", and of the sizes alone "i64 q0".
std::string call_parameters(const Program& program, const Signature& signature);
std::string size_parameters(const Signature& signature);
// Where a call has done all its work: keeps the sizes that it has computed for outputs, for that function.
void print_computed_sizes(base::CodeWriter& out, const Library& library, size_t program_index,
                          const package::Package& package, const std::function<std::string(const types::Dim&)>& number);
// The public function that tells which sizes a call of this one has computed for outputs; nothing where there are none.
void print_output_sizes(base::CodeWriter& out, const Library& library, size_t first);
// The public functions of a table.
std::string print_by_size(const Library& library, const SizeTable& table);

// Whether anything of the program is loaded or packed when the library starts.
bool loads_constants(const Program& program);

// The first call of every function of the caller's, in the order of the programs and their lists.
std::vector<const package::CallExtern*> extern_calls(const Library& library);
// Whether a program calls them, or kernels of the user's.
bool calls_out(const Library& library);
// "const ExternTensor inputs[] = {...};" of frame and views, with the numbers among them in "numbers".
void print_extern_tensors(base::CodeWriter& out, const package::Package& package, const std::string& table,
                          const std::vector<uint32_t>& buffers);
// Its place among them.
size_t extern_index(const Library& library, const std::string& name);
// The function of the header that takes it: "NAME_set_extern_scale".
std::string extern_setter(const Library& library, const std::string& name);

// Written of device/host/support.h: by which axes an operand is stored.
int written_axes(const package::Operand& operand);

// How a scalar parameter travels: its C type, and the dtype that a tensor of rank 0 has for it. 8- and 16-bit floats
// travel as float.
std::string_view scalar_type(DType dtype);
DType scalar_dtype(DType dtype);
bool is_number(DType dtype);    // a float type
bool is_unsigned(DType dtype);  // bool among them

inline bool on_gpu(const Program& program) { return program.package->target.backend != Backend::cpu; }
inline bool on_gpu(const Library& library) { return library.target.backend != Backend::cpu; }

}  // namespace codetta::emit::host
