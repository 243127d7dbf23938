// SPDX-License-Identifier: Apache-2.0
// Handwritten digits with two fused products: once layer by layer, once as a program. Exits with 1 below 96 % accuracy.
#include <algorithm>
#include <chrono>
#include <codetta/codetta.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Share of the images whose largest score is in the column of their label.
double accuracy(const codetta::TensorView& scores, const codetta::TensorView& labels) {
  int64_t right = 0;
  for (int64_t i = 0; i < scores.size(0); ++i) {
    const float* row = scores.as<const float>() + i * scores.size(1);
    right += std::max_element(row, row + scores.size(1)) - row == labels.as<const uint8_t>()[i];
  }
  return static_cast<double>(right) / static_cast<double>(scores.size(0));
}

// Median time of a run over all images, divided by their number, in microseconds.
template <class Run>
double time_per_image(int64_t images, Run&& run) {
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 150, times.end());
  return times[150] / static_cast<double>(images);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : DIGITS_FOLDER;
  const auto read = [&](const char* name) { return codetta::read_npy(folder + "/" + name + ".npy").value(); };
  const auto images = read("held_out_images"), labels = read("held_out_labels");
  const auto w1 = read("w1"), b1 = read("b1"), w2 = read("w2"), b2 = read("b2");
  const int64_t count = images.view().size(0);
  if (labels.view().dtype() != codetta::u8 || labels.view().shape() != codetta::Dims{count}) {
    std::fprintf(stderr, "the labels are %s; u8[%lld] is wanted\n", labels.view().describe().c_str(),
                 static_cast<long long>(count));
    return 1;
  }
  const auto hidden = codetta::Tensor::make(codetta::f32, {count, 128}).value();
  const auto scores = codetta::Tensor::make(codetta::f32, {count, 10}).value();

  // Layer by layer: each is one GEMM with its epilogue.
  codetta::GemmArguments first{.A = images, .B = w1, .out = hidden};
  first.epilogue = {text_of(folder + "/hidden.py"), {{"bias", b1}, {"D", hidden}}};
  codetta::GemmArguments second{.A = hidden, .B = w2, .out = scores};
  second.epilogue = {text_of(folder + "/scores.py"), {{"bias", b2}, {"D", scores}}};
  auto hidden_layer = codetta::get_kernels(first)[0].prepare(first).value();
  auto score_layer = codetta::get_kernels(second)[0].prepare(second).value();
  const double layers_us = time_per_image(count, [&] {
    hidden_layer.run().value();
    score_layer.run().value();
  });
  const double layers_right = accuracy(scores, labels);

  // The same as one program, which plans and owns the hidden values itself.
  codetta::fill_poison(scores);
  const auto program = codetta::Program::parse(text_of(folder + "/classifier.py"), "classifier.py").value();
  const auto compiled = codetta::compile(program, codetta::Target::host(), {{"batch", count}}).value();
  auto classify =
      compiled.prepare({{"x", images}, {"w1", w1}, {"b1", b1}, {"w2", w2}, {"b2", b2}, {"scores", scores}}).value();
  const double program_us = time_per_image(count, [&] { classify.run().value(); });
  const double program_right = accuracy(scores, labels);

  const auto print = [&](const char* how, double right, double us) {
    std::printf("  %-16s %.0f of %lld held-out digits right, accuracy %.4f, %.3f us an image\n", how,
                right * static_cast<double>(count), static_cast<long long>(count), right, us);
  };
  print("two fused GEMMs", layers_right, layers_us);
  print("one program", program_right, program_us);
  constexpr double wanted = 0.96;
  if (layers_right >= wanted && program_right >= wanted) return 0;
  std::fprintf(stderr, "accuracy is below %.2f\n", wanted);
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s", error.what());
  return 1;
}
