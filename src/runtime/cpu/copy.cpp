// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/cpu/units.hpp"

namespace codetta::runtime::cpu {
namespace {

constexpr int64_t parallel_bytes = 1 << 16;  // below them waking threads costs more than it brings, as for maps
constexpr int64_t unit_bytes = 1 << 16;      // of what a thread takes at once
constexpr int64_t line_bytes = 64;

struct Walk {
  struct Dim {
    int64_t size, from, to;  // strides of source and target
  };
  Dim dims[max_copied_dims];
  int rank = 0;
  bool empty = false;

  explicit Walk(const CopyProblem& p) {
    for (int i = 0; i < p.rank; ++i) {
      empty = empty || p.sizes[i] == 0;
      if (p.sizes[i] != 1) dims[rank++] = {p.sizes[i], p.source_strides[i], p.target_strides[i]};
    }
    for (int i = 1; i < rank; ++i) {  // few, and std::stable_sort is as much code as all else here
      for (int j = i; j > 0 && std::abs(dims[j - 1].to) < std::abs(dims[j].to); --j) std::swap(dims[j - 1], dims[j]);
    }
    int last = 0;
    for (int i = 1; i < rank; ++i) {
      Dim& outer = dims[last];
      const Dim& inner = dims[i];
      if (outer.from == inner.from * inner.size && outer.to == inner.to * inner.size) {
        outer = {outer.size * inner.size, inner.from, inner.to};
      } else {
        dims[++last] = inner;
      }
    }
    rank = std::min(rank, last + 1);
  }
  [[nodiscard]] int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i].size;
    return product;
  }
  // Takes a dim out; the others keep their order.
  Dim take(int at) {
    const Dim taken = dims[at];
    for (int i = at + 1; i < rank; ++i) dims[i - 1] = dims[i];
    --rank;
    return taken;
  }
};

// Item after item of a walk's dims: where it lies in source and target, in elements.
class Items {
 public:
  Items(const Walk& walk, int64_t index) : walk_(walk) {
    for (int i = walk.rank; i-- > 0; index /= walk.dims[i].size) {
      at_[i] = index % walk.dims[i].size;
      from += at_[i] * walk.dims[i].from;
      to += at_[i] * walk.dims[i].to;
    }
  }
  void next() {
    for (int i = walk_.rank; i-- > 0;) {
      const Walk::Dim& dim = walk_.dims[i];
      from += dim.from;
      to += dim.to;
      if (++at_[i] < dim.size) return;
      from -= dim.size * dim.from;
      to -= dim.size * dim.to;
      at_[i] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  const Walk& walk_;
  int64_t at_[max_copied_dims];
};

int64_t parts(int64_t size, int64_t each) { return (size + each - 1) / each; }

// Moves of elements of one size; addresses and strides are in bytes. Everything else is code for any size, of which
// libraries hold one copy.
struct Moves {
  void (*line)(const char* source, int64_t from, char* target, int64_t to, int64_t count);
  // `lines` of the source, `count` elements each, whose place in the target is along the other dim.
  void (*block)(const char* source, const Walk::Dim& across, int64_t lines, const Walk::Dim& along, int64_t count,
                char* target);
  int64_t edge;  // of a block
};

template <size_t bytes>
struct MovesOf {
  static constexpr auto width = static_cast<int64_t>(bytes);
  static constexpr int64_t edge = std::max<int64_t>(16, line_bytes / width);

  static void line(const char* source, int64_t from, char* target, int64_t to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(target + i * to, source + i * from, bytes);
  }

  // By way of a block that lies in one piece: lines of the source that are a power of two apart share few places of the
  // first-level cache, and so are read once each.
  static void block(const char* source, const Walk::Dim& across, int64_t lines, const Walk::Dim& along, int64_t count,
                    char* target) {
    char held[edge * edge * width];
    for (int64_t b = 0; b < count; ++b) {
      const char* const from = source + b * along.from * width;
      if (across.from == 1 && lines == edge) {
        std::memcpy(held + b * edge * width, from, static_cast<size_t>(edge * width));
        continue;
      }
      for (int64_t i = 0; i < lines; ++i)
        std::memcpy(held + (b * edge + i) * width, from + i * across.from * width, bytes);
    }
    for (int64_t i = 0; i < lines; ++i) {
      char* const to = target + i * across.to * width;
#pragma GCC unroll 8
      for (int64_t b = 0; b < count; ++b) std::memcpy(to + b * along.to * width, held + (b * edge + i) * width, bytes);
    }
  }

  static constexpr Moves moves{line, block, edge};
};

const Moves& moves_of(int64_t bytes) {
  return bytes == 1   ? MovesOf<1>::moves
         : bytes == 2 ? MovesOf<2>::moves
         : bytes == 4 ? MovesOf<4>::moves
                      : MovesOf<8>::moves;
}

class Elements {
 public:
  Elements(const CopyProblem& p, ThreadPool* pool, int threads)
      : source_(static_cast<const char*>(p.source)),
        target_(static_cast<char*>(p.target)),
        width_(p.element_bytes),
        moves_(moves_of(width_)),
        pool_(pool),
        threads_(threads) {}

  // Runs of elements side by side in both.
  void runs(const Walk& outer, int64_t length) const {
    const int64_t most = unit_bytes * 4 / width_;
    const int64_t pieces = parts(length, most), piece = parts(length, pieces);
    const int64_t rows = std::max<int64_t>(1, unit_bytes / width_ / length), all = outer.count();
    for_units(pool_, threads_, parts(all, rows) * pieces, [&](int64_t unit, int) {
      const int64_t begin = unit % pieces * piece, count = std::min(piece, length - begin);
      const int64_t first = unit / pieces * rows;
      Items at(outer, first);
      for (int64_t row = first; count > 0 && row < std::min(all, first + rows); ++row, at.next())
        std::memcpy(to(at.to + begin), from(at.from + begin), static_cast<size_t>(count * width_));
    });
  }

  // Blocks of `across`, in which the source's elements lie closest, and `along`, in which the target's do.
  void blocks(const Walk& outer, const Walk::Dim& across, const Walk::Dim& along) const {
    const int64_t edge = moves_.edge, bands = parts(across.size, edge);
    const int64_t wide =
        std::clamp<int64_t>(unit_bytes / width_ / edge / edge * edge, edge, parts(along.size, edge) * edge);
    const int64_t columns = parts(along.size, wide);
    for_units(pool_, threads_, outer.count() * bands * columns, [&](int64_t unit, int) {
      const int64_t a = unit / columns % bands * edge, first = unit % columns * wide;
      const Items at(outer, unit / columns / bands);
      const int64_t a_end = std::min(across.size, a + edge), end = std::min(along.size, first + wide);
      for (int64_t b = first; b < end; b += edge)
        moves_.block(from(at.from + a * across.from + b * along.from), across, a_end - a, along,
                     std::min(edge, end - b), to(at.to + a * across.to + b * along.to));
    });
  }

  // Elements with gaps in one order.
  void lines(const Walk& outer, const Walk::Dim& along) const {
    const int64_t most = unit_bytes / width_;
    const int64_t pieces = parts(along.size, most), piece = parts(along.size, pieces);
    const int64_t rows = std::max<int64_t>(1, most / along.size), all = outer.count();
    for_units(pool_, threads_, parts(all, rows) * pieces, [&](int64_t unit, int) {
      const int64_t begin = unit % pieces * piece, first = unit / pieces * rows;
      Items at(outer, first);
      for (int64_t row = first; row < std::min(all, first + rows); ++row, at.next())
        moves_.line(from(at.from + begin * along.from), along.from * width_, to(at.to + begin * along.to),
                    along.to * width_, std::min(piece, along.size - begin));
    });
  }

 private:
  [[nodiscard]] const char* from(int64_t element) const { return source_ + element * width_; }
  [[nodiscard]] char* to(int64_t element) const { return target_ + element * width_; }

  const char* source_;
  char* target_;
  int64_t width_;
  const Moves& moves_;
  ThreadPool* pool_;
  int threads_;
};

void copy_elements(const CopyProblem& p, Walk& walk, ThreadPool* pool) {
  const bool large = walk.count() > parallel_bytes / static_cast<int64_t>(p.element_bytes);
  ThreadPool* threads = large && pool != nullptr && pool->size() > 1 ? pool : nullptr;
  const Elements elements(p, threads, threads == nullptr ? 1 : pool->size());
  if (walk.rank == 0) {
    elements.runs(walk, 1);
    return;
  }
  int closest = walk.rank - 1;
  for (int i = 0; i < walk.rank; ++i) {
    const auto distance = [&](int dim) { return std::abs(walk.dims[dim].from); };
    if (distance(i) != 0 && (distance(i) < distance(closest) || distance(closest) == 0)) closest = i;
  }
  const Walk::Dim along = walk.take(walk.rank - 1);
  if (along.from == 1 && along.to == 1) {
    elements.runs(walk, along.size);
  } else if (closest < walk.rank && along.from != 0) {
    const Walk::Dim across = walk.take(closest);
    elements.blocks(walk, across, along);
  } else {
    elements.lines(walk, along);
  }
}

}  // namespace

void copy(const CopyProblem& problem, ThreadPool* pool) {
  if (problem.source == problem.target) return;  // an output in place of what it begins as
  Walk walk(problem);
  if (!walk.empty) copy_elements(problem, walk, pool);
}

}  // namespace codetta::runtime::cpu
