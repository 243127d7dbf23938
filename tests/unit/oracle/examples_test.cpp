// SPDX-License-Identifier: Apache-2.0
// The example epilogues on the NumPy reference's data: text, binding and oracle must agree with it. Takes the folder of
// cases.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "support.hpp"

namespace codetta::oracle::test {
namespace {

using Json = nlohmann::json;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Data load_npy(const std::string& path, DType dtype, const std::vector<int64_t>& shape) {
  const std::string bytes = read(path);
  Data data(dtype, shape);
  const size_t payload = data.bytes.size() - 8;
  const size_t header =
      bytes.size() < 10 ? 0 : 10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ(bytes.size(), header + payload) << path;
  if (bytes.size() == header + payload && payload > 0) std::memcpy(data.bytes.data(), bytes.data() + header, payload);
  return data;
}

void check_case(const std::string& folder, const Json& json) {
  const std::string text = read(std::string(CODETTA_SOURCE_DIR "/") + json["epilogue"].get<std::string>());
  auto function = frontend::parse_epilogue(std::make_shared<diag::SourceText>("example.py", text));
  ASSERT_TRUE(function) << function.error().render();

  std::map<std::string, Data> operands;
  std::vector<ir::BoundArgument> arguments;
  for (const auto& [name, o] : json["operands"].items()) {
    const auto shape = o["shape"].get<std::vector<int64_t>>();
    const DType dtype = *dtype_from_name(o["dtype"].get<std::string>());
    operands.emplace(name, load_npy(folder + "/" + o["file"].get<std::string>(), dtype, shape));
    if (name != "A" && name != "B") arguments.push_back({name, false, dtype, Dims(shape)});
  }
  std::map<std::string, types::Scalar> scalars;
  for (const auto& [name, s] : json["scalars"].items()) {
    const bool real = s["value"].is_number_float();
    const DType dtype = real ? *dtype_from_name(s["dtype"].get<std::string>()) : DType::i64;
    scalars[name] = real ? types::Scalar::from_f64(s["value"].get<double>(), dtype)
                         : types::Scalar::from_i64(s["value"].get<int64_t>());
    arguments.push_back({name, true, *dtype_from_name(s["dtype"].get<std::string>()), {}});
  }
  ir::GemmFacts facts;
  facts.a = operands.at("A").dtype;
  facts.b = operands.at("B").dtype;
  facts.accumulator = *dtype_from_name(json["accumulator"].get<std::string>());
  facts.m = json["sizes"]["M"];
  facts.n = json["sizes"]["N"];
  facts.k = json["sizes"]["K"];
  facts.batched = json["sizes"].contains("batch");
  if (facts.batched) facts.batch = json["sizes"]["batch"];
  for (const auto& [name, o] : json["outputs"].items()) {
    const Dims shape(o["shape"].get<std::vector<int64_t>>());
    const DType dtype = *dtype_from_name(o["dtype"].get<std::string>());
    arguments.push_back({name, false, dtype, shape});
    if (name == "D") facts.has_out = true, facts.out = dtype, facts.out_shape = shape;
  }
  auto graph = ir::bind_epilogue(*function, arguments, facts);
  ASSERT_TRUE(graph) << graph.error().render();
  std::vector<OracleInput> inputs;
  for (const ir::GraphInput& input : graph->inputs()) {
    if (scalars.contains(input.name)) {
      inputs.emplace_back(scalars[input.name]);
    } else {
      inputs.emplace_back(operands.at(input.name).view());
    }
  }
  auto result = evaluate(*graph, inputs);
  ASSERT_TRUE(result) << result.error().render();
  ASSERT_EQ(result->outputs.size(), json["outputs"].size());
  for (const ExpectedOutput& output : result->outputs) {
    const Json& o = json["outputs"][output.name];
    const auto shape = o["shape"].get<std::vector<int64_t>>();
    Data expected = load_npy(folder + "/" + o["expected"].get<std::string>(), DType::f64, shape);
    Data bound = load_npy(folder + "/" + o["bound"].get<std::string>(), DType::f64, shape);
    ASSERT_EQ(output.elements.size(), expected.count());
    size_t unsure = 0;
    double largest = 0;
    for (size_t i = 0; i < expected.count(); ++i) {
      const ExpectedElement& e = output.elements[i];
      unsure += e.ambiguous;
      // Both are intervals about one truth: they meet, and neither is out of proportion.
      ASSERT_LE(e.low, expected.get(i) + bound.get(i)) << folder << " " << output.name << " at " << i;
      ASSERT_GE(e.high, expected.get(i) - bound.get(i)) << folder << " " << output.name << " at " << i;
      if (e.ambiguous) continue;
      // Worst-case bounds are wider than the reference's, which are measured, but not out of proportion.
      largest = std::max(largest, std::abs(expected.get(i)));
      ASSERT_LE(e.high - e.low, 100 * bound.get(i) + 1e-3 * largest + 1e-2)
          << folder << " " << output.name << " at " << i;
      if (!types::is_float(output.dtype) || types::is_fp8(output.dtype)) continue;
      // The reference rounds nothing before it stores; here, each operation rounds as a kernel's does.
      ASSERT_LE(std::abs(expected.get(i) - e.value),
                e.bound * (1 + 1e-9) + std::abs(expected.get(i)) * 1e-7 + bound.get(i) / 2)
          << folder << " " << output.name << " at " << i;
    }
    ASSERT_LE(unsure * 100, expected.count()) << folder;
  }
}

std::string& folder_of_cases() {
  static std::string folder;
  return folder;
}

TEST(Examples, AgreeWithTheReference) {
  ASSERT_FALSE(folder_of_cases().empty()) << "call it with the folder that python/check_examples.py --write filled";
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of_cases())) {
    const std::string text = read(entry.path().string() + "/case.json");
    ASSERT_FALSE(text.empty());
    check_case(entry.path().string(), Json::parse(text));
    ++cases;
  }
  EXPECT_GT(cases, 50u);
  std::cout << cases << " cases\n";
}

}  // namespace
}  // namespace codetta::oracle::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) codetta::oracle::test::folder_of_cases() = argv[1];
  return RUN_ALL_TESTS();
}
