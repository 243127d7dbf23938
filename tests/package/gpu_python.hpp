// SPDX-License-Identifier: Apache-2.0
// Modules for CUDA over a pretended cuda.bindings: what they launch beside what runs in process launch, but for the
// addresses, which are those of the same tensors.
#pragma once

#include <cmath>
#include <sstream>

#include "base/process.hpp"
#include "emit/host/python.hpp"
#include "package/gpu_library.hpp"

namespace codetta::test {

struct PythonLaunch {
  std::string function, numbers;
  std::vector<std::byte> parameters;
};
struct PythonRun {
  std::string result, wrong;                           // what the pretended package tells of order, places and captures
  std::vector<std::pair<uint64_t, uint64_t>> tensors;  // address, bytes
  std::vector<PythonLaunch> launches;
};

inline PythonRun read_run(const std::string& path) {
  PythonRun run;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "result") run.result = line.substr(7);
    if (kind == "wrong") run.wrong += line.substr(6) + "\n";
    if (kind == "tensor") {
      auto& tensor = run.tensors.emplace_back();
      words >> tensor.first >> tensor.second;
    }
    if (kind != "launch") continue;
    PythonLaunch& launch = run.launches.emplace_back();
    words >> launch.function;
    std::string hex, word;
    while (words >> word) {
      if (!hex.empty()) launch.numbers += (launch.numbers.empty() ? "" : " ") + hex;
      hex = word;
    }
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      launch.parameters.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return run;
}

inline std::string numbers_of(const FakeLaunch& launch) {
  const auto& c = launch.config;
  std::ostringstream text;
  text << c.grid_x << " " << c.grid_y << " " << c.grid_z << " " << c.block_x << " " << c.block_y << " " << c.block_z
       << " " << c.dynamic_shared << " " << launch.attributes.size();
  for (const runtime::cuda::LaunchAttribute& attribute : launch.attributes) {
    const auto& value = attribute.value;
    text << " " << attribute.id;
    if (attribute.id == runtime::cuda::launch_cluster_dimension) {
      text << " " << value.cluster.x << " " << value.cluster.y << " " << value.cluster.z;
    } else if (attribute.id == runtime::cuda::launch_access_policy_window) {
      text << " " << value.window.bytes << " " << std::lround(1000 * value.window.hit_ratio) << " "
           << value.window.hit_property << " " << value.window.miss_property;
    } else {
      text << " " << value.flag;
    }
  }
  return text.str();
}

// All that a launch passes, each parameter in a multiple of 8 bytes, and where a window of L2 begins.
inline std::vector<std::byte> passed(const FakeLaunch& launch) {
  std::vector<std::byte> bytes = launch.each.empty() ? launch.parameters : std::vector<std::byte>();
  for (const std::vector<std::byte>& one : launch.each) {
    bytes.insert(bytes.end(), one.begin(), one.end());
    bytes.resize((bytes.size() + 7) / 8 * 8);
  }
  for (const runtime::cuda::LaunchAttribute& attribute : launch.attributes) {
    if (attribute.id != runtime::cuda::launch_access_policy_window) continue;
    bytes.resize(bytes.size() + 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &attribute.value.window.base, 8);
  }
  return bytes;
}

// The place of an address among tensors: "tensor 2 + 64"; else what it is.
inline std::string place_of(uint64_t word, const std::vector<std::pair<uint64_t, uint64_t>>& tensors, bool is_memory) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].second > 0 && word >= tensors[i].first && word < tensors[i].first + tensors[i].second)
      return "tensor " + std::to_string(i) + " + " + std::to_string(word - tensors[i].first);
  }
  return is_memory ? "scratch" : std::to_string(word);
}

inline std::string compare(const std::vector<FakeLaunch>& expected, const std::vector<TensorView>& views,
                           uint64_t workspace, uint64_t bytes, const PythonRun& run) {
  if (run.result != "0") return "the module returns " + run.result;
  if (run.launches.size() != expected.size())
    return std::to_string(run.launches.size()) + " launches, in process " + std::to_string(expected.size());
  std::vector<std::pair<uint64_t, uint64_t>> tensors;
  for (const TensorView& view : views) {
    tensors.emplace_back(reinterpret_cast<uint64_t>(view.data()),
                         static_cast<uint64_t>(view.element_count() * dtype_size(view.dtype())));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const FakeLaunch& a = expected[i];
    const PythonLaunch& b = run.launches[i];
    const std::string which = "launch " + std::to_string(i) + " of " + a.function + ": ";
    if (a.function != b.function || numbers_of(a) != b.numbers)
      return which + b.function + " " + b.numbers + ", in process " + numbers_of(a);
    const std::vector<std::byte> parameters = passed(a);
    if (parameters.size() != b.parameters.size()) return which + "other sizes of parameters";
    const size_t fault = a.each.empty() ? fault_offset(a) : parameters.size();
    for (size_t at = 0; at + 8 <= parameters.size(); at += 8) {
      if (at >= fault && at < fault + sizeof(gpu::StepFault)) continue;
      uint64_t left = 0, right = 0;
      std::memcpy(&left, parameters.data() + at, 8);
      std::memcpy(&right, b.parameters.data() + at, 8);
      const bool scratch = left >= workspace && left < workspace + bytes;
      // Scratch lies where the module's pool of memory put it: somewhere, but not at a tensor and not null.
      const std::string l = place_of(left, tensors, scratch),
                        r = place_of(right, run.tensors, scratch && right > (uint64_t{1} << 20));
      if (l != r) return which + "parameters at byte " + std::to_string(at) + ": " + r + ", in process " + l;
    }
  }
  return {};
}

class CudaPython : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::make_unique<base::TemporaryDirectory>(
        std::move(*base::TemporaryDirectory::make("/tmp", "codetta-cuda-python-")));
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_->path() + "/" + name; }
  // Where a line of the list begins: with the module.
  std::string write(const std::string& name, const package::Package& package) {
    const auto module = emit::host::emit_python(package, {CODETTA_TEST_HOST, {}, true});
    EXPECT_TRUE(module) << module.error().render();
    if (!module) return {};
    std::ofstream(file(name + ".py")) << *module;
    return file(name + ".py") + " " + file(name + ".out");
  }
  static std::string form_of(const TensorView& view) {
    std::string form = " " + std::string(dtype_name(view.dtype())) + ":";
    for (int d = 0; d < view.rank(); ++d) form += std::to_string(view.size(d)) + ",";
    return form;
  }
  // A whole line: the module with tensors of these forms.
  std::string write(const std::string& name, const package::Package& package, const std::vector<TensorView>& views) {
    std::string line = write(name, package);
    for (const TensorView& view : views) line += form_of(view);
    return line + "\n";
  }
  // False where there is no numpy.
  bool run(const std::string& list, const std::vector<std::string>& failing = {}) {
    std::ofstream(file("list")) << list;
    base::ProcessRequest request;
    request.program =
        base::find_executable(CODETTA_TEST_PYTHON, "/usr/bin:/usr/local/bin").value_or("/usr/bin/python3");
    request.arguments = {"-B", CODETTA_SOURCE_DIR "/tests/package/run_cuda_modules.py", file("list")};
    request.arguments.insert(request.arguments.end(), failing.begin(), failing.end());
    request.environment = {"PATH=/usr/bin:/bin"};
    const auto result = base::run_process(request);
    EXPECT_TRUE(result);
    if (result && result->errors.find("No module named 'numpy'") != std::string::npos) return false;
    EXPECT_TRUE(result && result->success()) << (result ? result->errors : "");
    return true;
  }
  std::unique_ptr<base::TemporaryDirectory> folder_;
};

inline package::PackageRef package_of(const std::string& text, const Sizes& hints, Context& context) {
  const auto program = Program::parse(text, "program.py").value();
  auto made = planned(program, Target::parse("cuda:sm_90a").value(), hints, context);
  return made ? std::make_shared<const package::Package>(*std::move(made)) : nullptr;
}

}  // namespace codetta::test
