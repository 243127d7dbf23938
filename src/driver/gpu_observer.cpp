// SPDX-License-Identifier: Apache-2.0
#include "driver/gpu_observer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/digest.hpp"

namespace codetta::driver {
namespace {

using runtime::cuda::Device;
using runtime::cuda::DeviceAddress;
using runtime::cuda::StreamHandle;
using Values = std::vector<StepRecord::Value>;

// Bytes of device memory that some tensors of one step lie in.
struct Piece {
  const std::byte *begin = nullptr, *end = nullptr;
  Tensor memory{};
  base::Digest128 read{};  // of the copy as it was read

  // Lies to multiples of its elements' sizes as the original does.
  [[nodiscard]] std::byte* copy() const { return static_cast<std::byte*>(memory.data()) + over(); }
  [[nodiscard]] size_t over() const { return address() % 64; }

  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(end - begin); }
  [[nodiscard]] DeviceAddress address() const { return reinterpret_cast<uintptr_t>(begin); }
  [[nodiscard]] base::Digest128 digest() const {
    return base::digest_of({reinterpret_cast<const char*>(copy()), bytes()});
  }
};

class Copies {
 public:
  Copies(const Device& device, StreamHandle stream) : device_(device), stream_(stream) {}

  // Reads what the views lie in and turns them to the copies.
  Result<void> read(std::initializer_list<Values*> all) {
    for (const Values* values : all) {
      for (const StepRecord::Value& value : *values) {
        if (value.view.empty()) continue;
        const auto [begin, end] = value.view.byte_range();
        pieces_.push_back({begin, end});
      }
    }
    join();
    for (Piece& piece : pieces_) {
      CODETTA_TRY(piece.memory, Tensor::make(DType::u8, {static_cast<int64_t>(piece.bytes() + piece.over())}));
      CODETTA_CHECK_OK(device_.download(piece.copy(), piece.address(), piece.bytes(), stream_));
    }
    CODETTA_CHECK_OK(device_.synchronize(stream_));
    for (Piece& piece : pieces_) piece.read = piece.digest();
    for (Values* values : all) {
      for (StepRecord::Value& value : *values) {
        if (value.view.empty()) continue;
        CODETTA_TRY(value.view, copied(value.view));
      }
    }
    return {};
  }

  // Back to where it came from, if the observer has changed it.
  Result<void> write() {
    bool written = false;
    for (const Piece& piece : pieces_) {
      if (piece.digest() == piece.read) continue;
      CODETTA_CHECK_OK(device_.upload(piece.address(), piece.copy(), piece.bytes(), stream_));
      written = true;
    }
    return written ? device_.synchronize(stream_) : Result<void>();
  }

 private:
  void join() {
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    size_t kept = 0;
    for (size_t i = 1; i < pieces_.size(); ++i) {
      if (pieces_[i].begin < pieces_[kept].end) {
        pieces_[kept].end = std::max(pieces_[kept].end, pieces_[i].end);
      } else {
        std::swap(pieces_[++kept], pieces_[i]);
      }
    }
    if (!pieces_.empty()) pieces_.resize(kept + 1);
  }
  [[nodiscard]] Result<TensorView> copied(const TensorView& view) const {
    const std::byte* const begin = view.byte_range().first;
    const auto behind = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                         [](const std::byte* at, const Piece& piece) { return at < piece.begin; });
    const Piece& piece = *(behind - 1);
    return TensorView::make(static_cast<void*>(piece.copy() + (view.as<const std::byte>() - piece.begin)), view.dtype(),
                            view.shape(), view.strides());
  }

  const Device& device_;
  StreamHandle stream_;
  std::vector<Piece> pieces_;  // apart from each other, by address
};

Error at_step(const Error& error, const std::string& step) {
  std::vector<Diagnostic> told = error.diagnostics();
  told.front().notes.push_back({fmt::format("what {} wrote is copied for the observer of the run", step), {}});
  return Error(std::move(told));
}

}  // namespace

runtime::cuda::Observer gpu_observer(std::shared_ptr<const StepRecords> records, StepObserver observer,
                                     Observed observed) {
  return [records = std::move(records), observer = std::move(observer), observed](
             const runtime::StepEvent& event, const Device& device, StreamHandle stream) -> Result<void> {
    StepRecord record = records->record(event);
    Copies copies(device, stream);
    Values none;
    const auto read = copies.read({observed == Observed::values ? &record.written : &none,
                                   observed == Observed::steps ? &none : &record.results});
    if (!read) return at_step(read.error(), record.step);
    CODETTA_CHECK_OK(observer(record));
    const auto written = copies.write();
    return written ? written : at_step(written.error(), record.step);
  };
}

}  // namespace codetta::driver
