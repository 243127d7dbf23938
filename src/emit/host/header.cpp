// SPDX-License-Identifier: Apache-2.0
// What users of a library read: the C header, the manifest, the list of exported functions; and what may stand in them.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "base/code_writer.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "diag/display.hpp"
#include "emit/host/devices.hpp"
#include "emit/host/signature.hpp"
#include "emit/host/steps.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using package::Buffer;
using Json = nlohmann::ordered_json;

namespace {

Error name_error(const std::string& what, const std::string& name, const std::string& defect) {
  return diag::error(diag::Code::public_name,
                     what + " '" + diag::displayable(name) + "' cannot be public in a C header")
      .reason(defect)
      .help("give it another name: names in the header are those of the text and of the command, never changed ones");
}

// Every exported function, in the order of the header.
std::vector<std::string> exported_names(const Library& library) {
  std::vector<std::string> names;
  for (const size_t first : functions_of(library)) {
    const Program& program = library.programs[first];
    const std::string name = function_name(library, program);
    names.insert(names.end(), {name, name + "_tensors", name + "_workspace_size"});
    if (devices_of(*program.package) > 1) names.push_back(name + "_workspace_size_on");
    if (!computed_dims(*program.package).empty()) names.push_back(name + "_output_sizes");
    if (function_looks(library, first)) names.push_back(name + "_check_contents");
  }
  for (const char* name : {"_init", "_get_last_error", "_abi_version", "_version", "_set_allocator", "_set_thread_pool",
                           "_release_memory"}) {
    if (!on_gpu(library) || std::string_view(name) != "_set_thread_pool") names.push_back(library.name + name);
  }
  if (devices_of(library) > 1) names.push_back(library.name + "_set_further_devices");
  if (!library.weights_file.empty()) names.push_back(library.name + "_load_weights");
  for (const package::CallExtern* call : extern_calls(library)) names.push_back(extern_setter(library, call->name));
  return names;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

std::string element_note(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "f16, IEEE binary16 as bits";
    case DType::bf16:
      return "bf16, the upper half of a float";
    case DType::f8e4m3:
      return "f8e4m3, OCP E4M3 as bits";
    case DType::f8e5m2:
      return "f8e5m2, OCP E5M2 as bits";
    default:
      return std::string(dtype_name(dtype));
  }
}

// "x: f32[batch, 64], row-major".
std::string argument_line(const Buffer& buffer, bool with_alias) {
  std::string line = buffer.name + ": ";
  if (buffer.is_scalar) return line + std::string(dtype_name(scalar_dtype(buffer.dtype))) + ", a number";
  line += buffer.role == Buffer::Role::Output ? "written, " : buffer.donated ? "donated, " : "read, ";
  line += element_note(buffer.dtype) + " " + types::to_string(buffer.shape);
  if (!buffer.filled.empty()) line += ", of which a call fills " + types::to_string(buffer.filled);
  return with_alias ? line : line + ", row-major";
}

// ", on device 1" of a tensor of a program of several.
std::string device_part(const package::Package& package, uint32_t b) {
  if (devices_of(package) == 1 || package.buffers[b].is_scalar) return {};
  return ", on device " + std::to_string(package.buffers[b].device);
}

void print_comment(CodeWriter& out, const std::vector<std::string>& lines) {
  if (lines.size() == 1) return out.line("/* ", lines[0], " */");
  for (size_t i = 0; i < lines.size(); ++i)
    out.line(i == 0 ? "/* " : " * ", lines[i], i + 1 == lines.size() ? " */" : "");
}

// The function of this program, whose others a caller sees nothing of.
void print_program(CodeWriter& out, const Library& library, size_t first) {
  const Program& program = library.programs[first];
  const Signature signature = signature_of(program);
  const std::string name = function_name(library, program);
  const auto& buffers = program.package->buffers;
  std::vector<std::string> lines{program.function + ". Sizes count elements; tensors lie row-major without gaps."};
  std::string parameters, sizes;
  const std::vector<ComputedDim> rooms = computed_dims(*program.package);
  for (const uint32_t b : signature.arguments) {
    const Buffer& buffer = buffers[b];
    lines.push_back("  " + argument_line(buffer, false) + device_part(*program.package, b));
    if (buffer.is_scalar) {
      parameters += std::string(scalar_type(buffer.dtype)) + " ";
    } else {
      const bool written = buffer.role == Buffer::Role::Output || buffer.donated;
      parameters += (written ? "" : "const ") + std::string(c_type(buffer.dtype)) + "* ";
    }
    parameters += buffer.name + ", ";
  }
  for (const std::string& symbol : signature.symbols) {
    const auto room = std::find_if(rooms.begin(), rooms.end(), [&](const ComputedDim& dim) {
      return buffers[dim.buffer].shape[dim.dim].as_symbol() == symbol;
    });
    lines.push_back("  " + symbol +
                    (room == rooms.end() ? ": the size of that name, 0 or more"
                                         : ": how much room there is in dim " + std::to_string(room->dim) + " of " +
                                               buffers[room->buffer].name + "; less than it needs is -2"));
    sizes += (sizes.empty() ? "int64_t " : ", int64_t ") + symbol;
  }
  lines.emplace_back(
      !on_gpu(library) ? "  stream: not used on a CPU; pass NULL"
      : library.target.backend == Backend::hip
          ? "  stream: a hipStream_t that the work is enqueued on; NULL: the default stream"
          : "  stream: a CUstream (cudaStream_t) that the work is enqueued on; NULL: the default stream");
  const uint32_t devices = devices_of(*program.package);
  if (on_gpu(library) && devices == 1) lines.emplace_back("Tensors lie in memory of the device.");
  if (devices > 1) {
    lines.push_back("The program uses " + std::to_string(devices) +
                    " devices. Device 0 is that of the call's context or stream, further ones");
    lines.push_back("are the next GPUs, or those of " + library.name + "_set_further_devices(). A tensor lies");
    lines.emplace_back("in memory of the device that is said of it. The work of all begins behind what is enqueued");
    lines.emplace_back("on the stream, and what is enqueued there behind the call waits for all of it.");
  }
  if (const std::vector<std::string> computed = computed_sizes(*program.package); !computed.empty()) {
    lines.push_back("The call computes the size " + base::join(computed, " and ") +
                    (on_gpu(library) ? " and waits for it: it can not be captured, and what has that"
                                     : ", and what has that size lies in"));
    lines.emplace_back(on_gpu(library) ? "size lies in memory of the library's own, whatever the workspace."
                                       : "memory of the library's own, whatever the workspace.");
  }
  for (const Constant& constant : program.constants) {
    lines.push_back("  (" + buffers[constant.buffer].name + ": " + type_text(buffers[constant.buffer]) +
                    (constant.symbol.empty() ? ", from the weights file)" : ", in the library)"));
  }
  lines.emplace_back(
      "Memory of a written tensor is its own, or exactly that of a tensor read at the same element only.");
  if (std::any_of(signature.arguments.begin(), signature.arguments.end(),
                  [&](uint32_t b) { return buffers[b].donated; })) {
    lines.emplace_back(
        "A donated tensor is overwritten: a call leaves anything in its memory, which lies in one piece");
    lines.emplace_back(on_gpu(library) ? "aligned to 256 bytes, as allocations are, and holds nothing else of the call."
                                       : "and holds nothing else of the call.");
  }
  print_comment(out, lines);
  out.line("int ", name, "(", parameters, sizes.empty() ? "" : sizes + ", ", "void* stream);");
  out.blank();
  lines = {"The same with sizes and strides that the tensors carry, in this order:"};
  for (const uint32_t b : signature.arguments) {
    lines.push_back(
        "  " + (buffers[b].is_scalar
                    ? buffers[b].name + ": " + std::string(dtype_name(scalar_dtype(buffers[b].dtype))) + ", of rank 0"
                    : argument_line(buffers[b], true)));
  }
  if (on_gpu(library)) {
    lines.emplace_back(
        "workspace: device memory aligned to 256 bytes, used until the work is done; NULL: the library takes");
    lines.emplace_back(
        "its own and keeps it for the next call on this stream. A stream under capture needs the caller's.");
    if (devices > 1) {
      lines.emplace_back(
          "It is device 0's. What the call needs on further devices the library takes itself, so that a");
      lines.emplace_back("call which needs any can not be captured.");
    }
  } else {
    lines.emplace_back("workspace: memory aligned to 64 bytes, used during the call; NULL: the library takes its own.");
  }
  print_comment(out, lines);
  out.line("int ", name, "_tensors(const ", library.name,
           "_tensor* tensors, int32_t count, void* workspace, int64_t workspace_bytes, void* stream);");
  out.blank();
  print_comment(out,
                {"Bytes of workspace that a call with row-major tensors of these sizes takes; negative: an error."});
  out.line("int64_t ", name, "_workspace_size(", sizes.empty() ? "void" : sizes, ");");
  out.blank();
  if (devices > 1) {
    print_comment(out,
                  {"The same of any device of the program: for device 0 as above, for others what the library takes",
                   "there itself."});
    out.line("int64_t ", name, "_workspace_size_on(int32_t device", sizes.empty() ? "" : ", " + sizes, ");");
    out.blank();
  }
  if (!rooms.empty()) {
    lines = {"The sizes that the calling thread's last successful call of " + name + " has computed:"};
    for (size_t i = 0; i < rooms.size(); ++i) {
      lines.push_back("  sizes[" + std::to_string(i) + "]: dim " + std::to_string(rooms[i].dim) + " of " +
                      buffers[rooms[i].buffer].name + ", " + rooms[i].size.to_string());
    }
    lines.push_back("count: " + std::to_string(rooms.size()) +
                    ". -1 where no call has succeeded in this thread, or one of another function has since.");
    print_comment(out, lines);
    out.line("int ", name, "_output_sizes(int64_t* sizes, int32_t count);");
    out.blank();
  }
  if (!function_looks(library, first)) return;
  print_comment(out,
                {"Kernels look at contents, such as indices: what they find wrong in a call is told once, by the next",
                 "call in that context, of whichever thread, which then enqueues nothing; or by this function, which",
                 "does not wait: certain once the work is done. 0: nothing is wrong."});
  out.line("int ", name, "_check_contents(void* stream);");
  out.blank();
}

// What functions of the caller's are made of: codetta/extern.h, which may be included beside it.
void print_extern_types(CodeWriter& out, bool gpu, bool several) {
  out.line("#ifndef CODETTA_EXTERN_H");
  out.line("#define CODETTA_EXTERN_H");
  out.line("enum { CODETTA_MAX_RANK = 8 };");
  std::vector<std::string> lines{
      "A tensor as functions of the caller's get it, by value; whoever hands it over keeps the memory.",
      "dtype as above, strides count elements, a number is a tensor of rank 0. release and owner are of",
      "tensors that a function allocates: called once when the program no longer needs the memory."};
  if (gpu)
    lines.insert(
        lines.end(),
        {"That is in the order of the stream, which owner says of every tensor that a function gets: work that",
         "was enqueued before may still read the memory, so that it goes back behind that work. data is device",
         "memory; of a number it is host memory that is gone when the function returns."});
  print_comment(out, lines);
  out.line("typedef struct CodettaTensor {");
  out.line("  void* data;");
  out.line("  int64_t shape[CODETTA_MAX_RANK];");
  out.line("  int64_t strides[CODETTA_MAX_RANK];");
  out.line("  int32_t rank;");
  out.line("  int32_t dtype;");
  out.line("  int32_t device; /* ", several ? "as the program counts devices" : "0", " */");
  out.line("  int32_t reserved;");
  out.line("  void (*release)(struct CodettaTensor* tensor);");
  out.line("  void* owner;");
  out.line("} CodettaTensor;");
  out.line("typedef int (*CodettaExtern)(void* context, const CodettaTensor* inputs, int input_count,");
  out.line("                             CodettaTensor* outputs, int output_count);");
  out.line("#endif");
  out.blank();
}

// Setters of the functions that programs call, with what each is called with first.
void print_externs(CodeWriter& out, const Library& library) {
  for (const Program& program : library.programs) {
    const Library alone{.name = library.name, .programs = {program}, .target = library.target, .version = {}};
    for (const package::CallExtern* call : extern_calls(alone)) {
      const std::string setter = extern_setter(library, call->name);
      if (!out.once(setter)) continue;
      const auto& buffers = program.package->buffers;
      const bool allocates = call->form == package::CallExtern::Form::Alloc;
      std::vector<std::string> lines{call->name + ", which " + program.function +
                                     " calls. It returns 0, or a code of its own that the call fails with."};
      for (const uint32_t b : call->inputs) lines.push_back("  inputs: " + type_text(buffers[b]));
      for (const uint32_t b : call->outputs) lines.push_back("  outputs: " + type_text(buffers[b]) + ", to be written");
      if (allocates)
        lines.push_back("  outputs: " + std::to_string(call->output_count) + ", which the function allocates");
      lines.emplace_back(
          "Inputs are never written. Calls of several threads may call it at the same time. To be set before");
      lines.emplace_back("the first call; not while one is under way. NULL: it is missing again.");
      print_comment(out, lines);
      out.line("int ", setter, "(CodettaExtern function, void* context);");
      out.blank();
    }
  }
}

void print_shared(CodeWriter& out, const Library& library) {
  const std::string& name = library.name;
  const std::string weights = library.weights_file.empty() ? "" : ", loads the weights";
  if (on_gpu(library)) {
    const char* const compiled = library.headers.empty() ? "" : ", which NVRTC compiles first";
    std::vector<std::string> lines{
        "Loads the GPU's driver" + weights + " and, in the context of the calling thread (the primary",
        std::string("one of device 0 where it has none), the kernels") + compiled +
            ". Every other function does it at need, in the",
        "context of its thread or stream; calling it early makes the first call fast. Any thread may",
        "call it, any number of times."};
    if (!library.headers.empty()) {
      lines.back() += " What is compiled serves all contexts of such devices. A call on a";
      lines.emplace_back(
          "stream that is being captured compiles nothing: where something is not compiled yet it is -1");
      lines.emplace_back(
          "(E0535), and the capture stays valid. Call this, or the function once, before the capture begins.");
    }
    if (devices_of(library) > 1) {
      lines.back() += " Kernels of devices 1, 2, ... are loaded in the primary contexts of";
      lines.push_back("the GPUs that " + name + "_set_further_devices() has named, or else follow device 0: it fails");
      lines.emplace_back("where there are too few.");
    }
    print_comment(out, lines);
  } else {
    print_comment(out, {"Checks the processor" + weights +
                            ". Every other function does it at need; calling it early makes the first call fast.",
                        "Any thread may call it, any number of times."});
  }
  out.line("int ", name, "_init(void);");
  out.blank();
  if (!library.weights_file.empty()) {
    print_comment(out, {"Loads the weights from this safetensors file instead of " + library.weights_file +
                            " beside the library. Before any other call.",
                        "The file is mapped, and must not change while the library is loaded."});
    out.line("int ", name, "_load_weights(const char* path);");
    out.blank();
  }
  print_comment(
      out, {"What the last failure of the calling thread was; \"\" before the first. Valid until its next failure."});
  out.line("const char* ", name, "_get_last_error(void);");
  out.blank();
  print_comment(out,
                {"Compare with " + upper(name) + "_ABI_VERSION: a header goes with libraries of the same number."});
  out.line("int ", name, "_abi_version(void);");
  out.line("const char* ", name, "_version(void);");
  out.blank();
  if (on_gpu(library)) {
    print_comment(
        out, {std::string("Device memory for workspaces, which is asked for with the context ") +
                  (devices_of(library) > 1 ? "of its device current: release gets what" : "current: release gets what"),
              "allocate was asked for, when its stream is done with it. Both NULL: the driver's. Both must stay",
              "callable until other ones are set or the library is unloaded."});
  } else {
    print_comment(
        out, {"Memory for workspaces: release gets what allocate was asked for. Both NULL: the default. Both must stay",
              "callable until other ones are set or the library is unloaded."});
  }
  out.line("int ", name, "_set_allocator(void* (*allocate)(void* self, size_t bytes, size_t alignment),");
  out.line("    void (*release)(void* self, void* memory, size_t bytes, size_t alignment), void* self);");
  out.blank();
  if (devices_of(library) > 1) {
    print_comment(out,
                  {"Which GPUs devices 1, 2, ... of programs are, by the driver's ordinals, from the next call on;",
                   "device 0 is that of a call's context or stream. An ordinal may be there several times, and be",
                   "that of device 0, so that programs of several devices run on one GPU. count 0: the ordinals",
                   "that follow that of device 0. Calls that are under way keep theirs."});
    out.line("int ", name, "_set_further_devices(const int32_t* ordinals, int32_t count);");
    out.blank();
  }
  if (!on_gpu(library)) {
    print_comment(
        out, {"Threads: run calls task(context, 0) to task(context, tasks - 1), on any threads and in any order, and",
              "returns when all have returned. run NULL: the library's own, `threads` of them, 0: one a processor.",
              "Results have the same bits for every number of threads. Not while another call is under way."});
    out.line("int ", name, "_set_thread_pool(int32_t threads,");
    out.line("    void (*run)(void* self, int32_t tasks, void (*task)(void* context, int32_t index), void* context),");
    out.line("    void* self);");
    out.blank();
  }
  print_comment(out, {"Gives back workspaces that rest between calls."});
  out.line("void ", name, "_release_memory(void);");
}

Json json_of(const types::Shape& shape) {
  Json sizes = Json::array();
  for (const types::Dim& dim : shape) {
    if (const auto size = dim.as_constant()) {
      sizes.push_back(*size);
    } else {
      sizes.push_back(dim.to_string());
    }
  }
  return sizes;
}

Json json_of(const Library& library, const Program& program) {
  const Signature signature = signature_of(program);
  const auto& buffers = program.package->buffers;
  Json json{{"name", program.function}, {"symbol", function_name(library, program)}, {"arguments", Json::array()}};
  for (const uint32_t b : signature.arguments) {
    Json argument{{"name", buffers[b].name},
                  {"role", buffers[b].role == Buffer::Role::Output ? "output" : "input"},
                  {"dtype", dtype_name(buffers[b].dtype)}};
    if (buffers[b].donated) argument["donated"] = true;
    if (!buffers[b].filled.empty()) argument["filled"] = json_of(buffers[b].filled);
    if (devices_of(*program.package) > 1 && !buffers[b].is_scalar) argument["device"] = buffers[b].device;
    if (buffers[b].is_scalar) {
      argument["scalar"] = true;
    } else {
      argument["shape"] = json_of(buffers[b].shape);
    }
    json["arguments"].push_back(std::move(argument));
  }
  if (const uint32_t devices = devices_of(*program.package); devices > 1) json["devices"] = devices;
  json["sizes"] = signature.symbols;
  json["constants"] = Json::array();
  const Library alone{.name = library.name, .programs = {program}, .target = library.target, .version = {}};
  for (const package::CallExtern* call : extern_calls(alone))
    json["externs"].push_back({{"name", call->name}, {"setter", extern_setter(library, call->name)}});
  for (const Constant& constant : program.constants) {
    bool packed = false;
    for (const PackedFactor& factor : program.packed) {
      const auto& step = program.package->steps[factor.step];
      const package::Product& product = *std::get_if<package::LaunchKernel>(&step)->product;
      for (size_t p = 0; p < product.products(); ++p) {
        const package::Reinterpret* slice = slice_step(*program.package, product.factor_b(p));
        packed = packed || (slice != nullptr ? slice->source : product.factor_b(p)) == constant.buffer;
      }
    }
    Json shape = Json::array();
    for (const int64_t size : constant.shape) shape.push_back(size);
    json["constants"].push_back({{"name", buffers[constant.buffer].name},
                                 {"dtype", dtype_name(buffers[constant.buffer].dtype)},
                                 {"shape", std::move(shape)},
                                 {"from", constant.symbol.empty() ? "weights file" : "library"},
                                 {"packed", packed}});
  }
  json["plan"] = Json::parse(program.package->manifest_json());
  return json;
}

// Which sizes take which plan: "plans" has those of all programs of the table.
Json json_of(const Library& library, const SizeTable& table) {
  Json json{{"sizes", Json::array()}, {"chosen", table.chosen}, {"plans", Json::array()}};
  for (const SizeTable::Axis& axis : table.axes)
    json["sizes"].push_back({{"name", axis.symbol}, {"for", axis.sizes}, {"up_to", axis.up_to}});
  for (size_t i = 0; i < table.count; ++i)
    json["plans"].push_back(Json::parse(library.programs[table.first + i].package->manifest_json()));
  for (size_t i = 0; i < table.less_aligned.size(); ++i) {
    if (table.less_aligned[i]) json["less_aligned"].push_back({{"plan", i}, {"then", *table.less_aligned[i]}});
  }
  if (!table.when_empty.empty()) json["when_empty"] = table.when_empty;
  if (!table.when_uneven.empty()) json["when_uneven"] = table.when_uneven;
  return json;
}

}  // namespace

Result<void> check_library_name(const std::string& name) {
  if (const std::string defect = public_name_defect(name); !defect.empty())
    return name_error("the library's name", name, defect);
  return {};
}

Result<void> check_library(const Library& library) {
  CODETTA_CHECK_OK(check_library_name(library.name));
  std::map<std::string, bool> taken{{library.name + "_tensor", true}};
  for (const std::string& name : exported_names(library)) {
    if (!taken.emplace(name, true).second)
      return name_error("the function", name, "two functions of the library would have this name");
  }
  for (const Program& program : library.programs) {
    if (const std::string defect = public_name_defect(program.function); !defect.empty())
      return name_error("the function", program.function, defect);
    const Signature signature = signature_of(program);
    std::map<std::string, bool> seen;
    const auto own = [&](const std::string& name) {
      return name == "stream" ? program.function + " has a parameter of this name of its own, behind the text's" : "";
    };
    for (const uint32_t b : signature.arguments) {
      const std::string& name = program.package->buffers[b].name;
      if (const std::string defect = public_name_defect(name); !defect.empty())
        return name_error("the parameter", name, defect);
      if (const std::string defect = own(name); !defect.empty()) return name_error("the parameter", name, defect);
      if (!seen.emplace(name, true).second)
        return name_error("the parameter", name, "two parameters of the function would have this name");
    }
    for (const std::string& symbol : signature.symbols) {
      if (const std::string defect = public_name_defect(symbol); !defect.empty())
        return name_error("the size", symbol, defect);
      if (const std::string defect = own(symbol); !defect.empty()) return name_error("the size", symbol, defect);
      if (!seen.emplace(symbol, true).second)
        return name_error("the size", symbol, "a parameter of " + program.function + " has this name");
    }
    if (const auto missing = missing_feature(program)) {
      return diag::error(diag::Code::host_feature, program.function + " has no form as C++ host text")
          .reason(*missing)
          .help(on_gpu(program) ? "build it for a CPU, or write it without this"
                                : "run this program in process, or write it without this");
    }
  }
  return {};
}

std::string print_header(const Library& library) {
  CodeWriter out;
  const std::string guard = upper(library.name) + "_CODETTA_H";
  std::vector<std::string> about{
      "Generated by Codetta " + library.version + " for " + library.target.to_string() +
          ". Functions return 0, or a negative number and a text:",
      "  -1  an argument: null, misaligned, a negative size, another element type",
      "  -2  sizes that contradict each other or the program",
      "  -3  a written tensor that overlaps another one, or itself",
      "  -4  no memory",
      "  -5  a workspace that is too small or misaligned",
      !library.headers.empty() ? "  -6  no driver, no NVRTC, no GPU, or one that the kernels are not made for"
      : on_gpu(library)        ? "  -6  no driver, no GPU, or one that the kernels are not compiled for"
                               : "  -6  a processor without the instructions of this library",
      "  -7  weights that are missing, damaged, or of another program"};
  if (on_gpu(library))
    about.emplace_back(std::string("  -8  a call of the GPU's driver that failed") +
                       (library.headers.empty() ? "" : ", or a kernel that NVRTC rejects"));
  if (calls_out(library))
    about.emplace_back(
        "  -9  a function of the caller's that is missing or failed, or a kernel of the user's that failed");
  about.emplace_back("Nothing is written by a call that fails with -1 to -3 or -5, except where only running shows");
  about.emplace_back("it: an index out of range, a loop that does not end, a size that values or functions give.");
  about.emplace_back("All functions may be called from several threads at once, except where they say otherwise.");
  about.emplace_back("Nothing is printed, no signal is raised.");
  print_comment(out, about);
  out.line("#ifndef ", guard);
  out.line("#define ", guard);
  out.blank();
  out.line("#include <stdbool.h>");
  out.line("#include <stddef.h>");
  out.line("#include <stdint.h>");
  out.blank();
  out.line("#define ", upper(library.name), "_ABI_VERSION ", library_abi);
  out.blank();
  out.line("#ifdef __cplusplus");
  out.line("extern \"C\" {");
  out.line("#endif");
  out.blank();
  print_comment(out,
                {"A tensor in memory. dtype: 0 bool, 1 i8, 2 i16, 3 i32, 4 i64, 5 u8, 6 u16, 7 u32, 8 u64, 9 f8e4m3,",
                 "10 f8e5m2, 11 f16, 12 bf16, 13 f32, 14 f64. Strides count elements and may be negative."});
  out.line("typedef struct ", library.name, "_tensor {");
  out.line("  void* data;");
  out.line("  int32_t dtype;");
  out.line("  int32_t rank; /* 0 to 8 */");
  out.line("  int64_t shape[8];");
  out.line("  int64_t strides[8];");
  out.line("} ", library.name, "_tensor;");
  out.blank();
  const bool externs = !extern_calls(library).empty();
  if (externs) print_extern_types(out, on_gpu(library), devices_of(library) > 1);
  for (const size_t first : functions_of(library)) print_program(out, library, first);
  if (externs) print_externs(out, library);
  print_shared(out, library);
  out.blank();
  out.line("#ifdef __cplusplus");
  out.line("}");
  out.line("#endif");
  out.blank();
  out.line("#endif");
  return out.str();
}

std::string print_exports(const Library& library) {
  std::string text = "{\n  global:\n";
  for (const std::string& name : exported_names(library)) text += "    " + name + ";\n";
  return text + "  local: *;\n};\n";
}

std::string print_manifest(const Library& library) {
  Json json{{"library", library.name},           {"abi", library_abi},
            {"codetta", library.version},        {"target", library.target.to_string()},
            {"checked", library.checked},        {"programs", Json::array()},
            {"exports", exported_names(library)}};
  if (!library.weights_file.empty()) json["weights"] = library.weights_file;
  for (const size_t first : functions_of(library)) {
    json["programs"].push_back(json_of(library, library.programs[first]));
    if (const SizeTable* table = table_of(library, first))
      json["programs"].back()["by_size"] = json_of(library, *table);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace codetta::emit::host
