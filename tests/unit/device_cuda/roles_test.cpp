// SPDX-License-Identifier: Apache-2.0
// A model of the sm_100a kernel's protocol: the roles of device/cuda/kernels/sm100_roles.h, the loops that the GPU
// runs, run here as fibers of which one moves at a time, chosen at random, over mbarriers as the PTX ISA describes
// them. Copies, products, commits and answers take any time that their order allows. The model knows what each stage,
// set of accumulators and answer holds and who still has to read it, so that whatever is read too early or overwritten
// too soon, and every deadlock, is a failure.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulator/fibers.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "device/cuda/kernels/sm100_roles.h"
#include "device/gpu/raster.h"
#pragma GCC diagnostic pop

namespace codetta::gpu::sm100 {
namespace {

constexpr int64_t box_bytes = 100;
constexpr size_t bars = 7;

// PTX ISA, "mbarrier": a phase is complete once no arrival is pending and as many bytes came as were announced.
struct Barrier {
  uint32_t expected = 1, pending = 1, phase = 0;
  int64_t bytes = 0;  // announced and not there; below 0 where they came first
  bool broken = false;

  void arrive(int64_t announced = 0) {
    if (pending == 0) broken = true;
    --pending;
    bytes += announced;
    settle();
  }
  void came(int64_t n) {
    bytes -= n;
    settle();
  }
  void settle() {
    if (pending != 0 || bytes != 0) return;
    ++phase;
    pending = expected;
  }
  [[nodiscard]] bool passed(uint32_t parity) const { return (phase & 1) != parity; }
};

struct Unit {
  uint32_t index, blocks;
};

struct Case {
  uint32_t blocks = 1, finishers = 4, stages = 2;
  bool dynamic = false, makes = false;
  std::vector<uint32_t> steps;  // of K, of each unit of the grid
  uint32_t first = 0, stride = 1;
  std::optional<Bar> deaf, mute;  // planted faults: nobody waits at it, one arrival at it is lost
  uint64_t seed = 0;
};

constexpr uint32_t makers = 4;
enum class Held { Nothing, Coming, There, Read };
struct Stage {
  Held held = Held::Nothing;
  uint32_t unit = 0, block = 0, boxes = 0, made = 0;  // made: by so many warps
};
struct Accumulators {
  uint32_t unit = 0, steps = 0, unread = 0;  // warps that have not read them
};
struct Answer {
  bool there = false, yes = false;
  uint32_t index = 0, number = 0, unread = 0;
};
struct BlockState {
  std::array<std::vector<Barrier>, bars> barrier;
  std::vector<Stage> stage;
  std::array<Accumulators, accumulator_sets> set{};
  std::array<Answer, answer_slots> slot{};
  std::vector<uint32_t> finished;  // by unit: warps that have finished it
};

struct Stop {};

// A role of a block, on a stack of its own.
struct Agent {
  std::string name;
  std::function<void(Agent&)> body;
  std::function<bool()> ready;  // empty: at once
  bool done = false;
  emulator::Context at;
};

class World {
 public:
  explicit World(const Case& c) : c_(c), random_(c.seed) {
    for (uint32_t r = 0; r < c.blocks; ++r) {
      BlockState& b = blocks.emplace_back();
      const auto make = [&](Bar bar, size_t count) {
        Barrier fresh;
        fresh.expected = fresh.pending = arrivals(bar, c.blocks, c.finishers, c.makes ? makers : 0);
        b.barrier[static_cast<size_t>(bar)].assign(count, fresh);
      };
      make(Bar::Full, c.stages);
      make(Bar::Empty, c.stages);
      make(Bar::Ready, accumulator_sets);
      make(Bar::Drained, accumulator_sets);
      make(Bar::Answer, answer_slots);
      make(Bar::Heard, answer_slots);
      if (c.makes) make(Bar::Made, c.stages);
      b.stage.resize(c.stages);
      b.finished.resize(c.steps.size());
    }
    taken.resize(c.steps.size());
    if (c.first < taken.size()) taken[c.first] = true;
    next_ = c.first + 1;
  }

  // Runs all roles to their end. Empty, or what went wrong.
  std::string run(std::vector<std::pair<std::string, std::function<void(Agent&)>>> roles) {
    static emulator::Stacks stacks;
    if (!stacks.reserve(roles.size())) return "no memory for stacks";
    for (auto& [name, body] : roles) {
      const size_t index = agents_.size();
      agents_.push_back(
          std::make_unique<Agent>(Agent{name, std::move(body), nullptr, false, stacks.start(index, enter)}));
    }
    while (fault_.empty()) {
      std::vector<Agent*> able;
      bool all_done = true;
      for (const auto& agent : agents_) {
        all_done = all_done && agent->done;
        if (!agent->done && (!agent->ready || agent->ready())) able.push_back(agent.get());
      }
      const size_t queued = products_.empty() ? 0 : 1, choices = able.size() + events_.size() + queued;
      if (all_done) {
        if (choices != 0) fail("a copy, a product or an arrival is under way when the roles have ended");
        break;
      }
      if (choices == 0) {
        fail("deadlock");
        break;
      }
      const size_t choice = random_() % choices;
      if (choice < able.size()) {
        resume(*able[choice]);
      } else if (choice < able.size() + events_.size()) {
        const auto at = events_.begin() + static_cast<std::ptrdiff_t>(choice - able.size());
        const auto event = std::move(*at);
        events_.erase(at);
        event();
      } else {
        const auto product = std::move(products_.front());
        products_.pop_front();
        product();
      }
    }
    stopping_ = true;
    for (const auto& agent : agents_) {
      while (!agent->done) resume(*agent);
    }
    for (const BlockState& block : blocks) {
      for (const auto& barriers : block.barrier) {
        for (const Barrier& barrier : barriers) {
          if (barrier.broken) fail("more arrivals at a barrier than a phase has");
        }
      }
    }
    return fault_;
  }

  void fail(const std::string& text) {
    if (fault_.empty()) fault_ = text;
  }
  void expect(bool holds, const std::string& text) {
    if (!holds) fail(text);
  }
  // Lets others run; returns once `ready` holds and it is this agent's turn again.
  void pause(Agent& agent, std::function<bool()> ready) {
    agent.ready = std::move(ready);
    emulator::change(agent.at, host_);
    if (stopping_) throw Stop{};
  }
  void wait(Agent& agent, Bar bar, uint32_t rank, uint32_t index, uint32_t parity) {
    const Barrier& barrier = blocks[rank].barrier[static_cast<size_t>(bar)].at(index);
    const bool deaf = c_.deaf == bar;
    if ((deaf || barrier.passed(parity)) && random_() % 4 != 0) return;
    pause(agent, [&barrier, parity, deaf] { return deaf || barrier.passed(parity); });
  }
  Barrier& barrier(Bar bar, uint32_t rank, uint32_t index) {
    return blocks[rank].barrier[static_cast<size_t>(bar)].at(index);
  }
  // Whether this arrival is the one that a planted fault loses.
  bool lost(Bar bar) { return c_.mute == bar && !std::exchange(muted_, true); }
  void later(std::function<void()> event) { events_.push_back(std::move(event)); }
  void in_order(std::function<void()> product) { products_.push_back(std::move(product)); }
  // The next cluster of the grid that has not begun; others take some meanwhile.
  std::optional<uint32_t> hand_out() {
    while (next_ < c_.steps.size() && random_() % 3 == 0) ++next_;
    if (next_ >= c_.steps.size()) return std::nullopt;
    taken[next_] = true;
    return next_++;
  }

  std::vector<BlockState> blocks;
  std::vector<bool> taken;  // units of this group
  uint32_t requests = 0;
  bool refused = false;

 private:
  void resume(Agent& agent) {
    agent.ready = nullptr;
    running_ = this;
    current_ = &agent;
    emulator::change(host_, agent.at);
  }
  // What a fiber begins with.
  static void enter() {
    World& world = *running_;
    Agent& agent = *world.current_;
    emulator::arrived(world.host_);
    try {
      agent.body(agent);
    } catch (const Stop&) {
    }
    agent.done = true;
    emulator::change(agent.at, world.host_, true);
  }

  static inline World* running_ = nullptr;
  const Case& c_;
  std::mt19937_64 random_;
  emulator::Context host_;
  Agent* current_ = nullptr;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<std::function<void()>> events_;   // in any order
  std::deque<std::function<void()>> products_;  // one after the other
  std::string fault_;
  uint32_t next_ = 0;
  bool stopping_ = false, muted_ = false;
};

// The Machine that the roles are made for; see sm100.h for the other one.
struct Machine {
  World& world;
  const Case& c;
  Agent& agent;
  uint32_t rank;
  uint32_t answers = 0;  // heard so far

  [[nodiscard]] uint32_t first() const { return c.first; }
  [[nodiscard]] uint32_t step() const { return c.stride; }
  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(c.steps.size()); }
  [[nodiscard]] bool leads() const { return rank == 0; }
  [[nodiscard]] Unit unit(uint32_t index) const {
    world.expect(index < c.steps.size() && world.taken[index], "a unit of another group");
    return {index, index < c.steps.size() ? c.steps[index] : 0};
  }
  void wait(Bar bar, uint32_t index, uint32_t parity) { world.wait(agent, bar, rank, index, parity); }
  void arrive(Bar bar, uint32_t index) {
    if (!world.lost(bar)) world.barrier(bar, 0, index).arrive();
  }
  void after_sync() const {}
  void prepare(const Unit&) const {}
  [[nodiscard]] Unit copies(const Unit& u) const { return u; }

  void copy(const Unit& u, uint32_t block, uint32_t at) {
    // Where A is made each block counts its own bytes.
    const uint32_t counts = c.makes ? rank : 0;
    if ((leads() || c.makes) && !world.lost(Bar::Full))
      world.barrier(Bar::Full, counts, at).arrive(2 * box_bytes * (c.makes ? 1 : c.blocks));
    Stage& stage = world.blocks[rank].stage[at];
    world.expect(stage.held == Held::Nothing || stage.held == Held::Read, "a stage is overwritten");
    stage = {Held::Coming, u.index, block, 0, 0};
    for (int box = 0; box < 2; ++box) {
      world.later([&w = world, &stage, counts, at] {
        if (++stage.boxes == 2) stage.held = Held::There;
        w.barrier(Bar::Full, counts, at).came(box_bytes);
      });
    }
  }

  [[nodiscard]] Unit rows(const Unit& u) const { return u; }
  void make(const Unit& u, uint32_t block, uint32_t at) {
    Stage& stage = world.blocks[rank].stage[at];
    const auto check = [&] {
      world.expect(stage.held == Held::There && stage.unit == u.index && stage.block == block && stage.made < makers,
                   "A is made of a stage that does not hold the step");
    };
    check();
    world.pause(agent, nullptr);
    check();
    ++stage.made;
  }

  void multiply(const Unit& u, uint32_t block, uint32_t at, uint32_t set) {
    for (BlockState& b : world.blocks) {
      const Stage& stage = b.stage[at];
      world.expect(stage.held == Held::There && stage.unit == u.index && stage.block == block,
                   "a stage is multiplied that does not hold the step");
      world.expect(!c.makes || stage.made == makers, "a stage is multiplied before its A is made");
      Accumulators& accumulators = b.set[set];
      if (block == 0) {
        world.expect(accumulators.unread == 0, "accumulators are overwritten");
        accumulators = {u.index, 0, c.finishers};
      }
    }
    world.in_order([&w = world, at, set] {
      for (BlockState& b : w.blocks) {
        b.stage[at].held = Held::Read;
        ++b.set[set].steps;
      }
    });
  }
  void commit(Bar bar, uint32_t index) {
    const bool lost = world.lost(bar);
    world.in_order([&w = world, bar, index, lost] {
      for (uint32_t r = 0; r < w.blocks.size() && !lost; ++r)
        w.later([&w, bar, r, index] { w.barrier(bar, r, index).arrive(); });
    });
  }

  void finish(const Unit& u, uint32_t at) {
    Accumulators& set = world.blocks[rank].set[at];
    const auto check = [&] {
      world.expect(u.blocks == 0 || (set.unit == u.index && set.steps == u.blocks && set.unread > 0),
                   "accumulators are read that are not those of the unit");
    };
    check();
    world.pause(agent, nullptr);
    check();
    if (u.blocks != 0) --set.unread;
    arrive(Bar::Drained, at);
    ++world.blocks[rank].finished[u.index];
  }

  void announce(uint32_t slot) {
    if (!world.lost(Bar::Answer)) world.barrier(Bar::Answer, rank, slot).arrive(16);
  }
  void request(uint32_t slot) {
    world.expect(!world.refused, "a request after a no");
    const std::optional<uint32_t> unit = world.hand_out();
    const uint32_t number = ++world.requests;
    for (uint32_t r = 0; r < c.blocks; ++r) {
      Answer& answer = world.blocks[r].slot[slot];
      world.expect(answer.unread == 0, "an answer is overwritten");
      const uint32_t readers = c.finishers + (c.makes ? makers : 0) + 2 + (r == 0 ? 1 : 0);
      world.later([&w = world, &answer, unit, number, readers, r, slot] {
        w.expect(answer.unread == 0, "an answer is overwritten");
        answer = {true, unit.has_value(), unit.value_or(0), number, readers};
        w.barrier(Bar::Answer, r, slot).came(16);
      });
    }
  }
  bool answer(uint32_t slot, uint32_t& index) {
    Answer& answer = world.blocks[rank].slot[slot];
    world.expect(answer.there && answer.number == ++answers && answer.unread > 0, "another answer than the next one");
    if (answer.unread > 0) --answer.unread;
    index = answer.index;
    if (leads() && !answer.yes && agent.name == "scheduler") world.refused = true;
    return answer.yes;
  }
};

template <int stage_count, bool is_dynamic, bool makes>
struct Traits {
  static constexpr int stages = stage_count;
  static constexpr bool dynamic = is_dynamic, makes_a = makes;
};

template <int stage_count, bool is_dynamic, bool makes>
std::string run_as(const Case& c) {
  using Protocol = Traits<stage_count, is_dynamic, makes>;
  World world(c);
  if (!is_dynamic) {
    for (uint32_t unit = c.first; unit < c.steps.size(); unit += c.stride) world.taken[unit] = true;
  }
  std::vector<std::pair<std::string, std::function<void(Agent&)>>> roles;
  const auto add = [&](const char* name, uint32_t rank, void (*role)(Machine&)) {
    roles.emplace_back(name, [&world, &c, rank, role](Agent& agent) {
      Machine machine{world, c, agent, rank};
      role(machine);
    });
  };
  for (uint32_t rank = 0; rank < c.blocks; ++rank) {
    add("producer", rank, produce<Protocol, Machine>);
    if (rank == 0) add("multiplier", rank, multiply<Protocol, Machine>);
    if (is_dynamic) add("scheduler", rank, schedule<Protocol, Machine>);
    for (uint32_t warp = 0; warp < c.finishers; ++warp) add("finisher", rank, finish<Protocol, Machine>);
    for (uint32_t warp = 0; makes && warp < makers; ++warp) add("maker", rank, make<Protocol, Machine>);
  }
  const std::string fault = world.run(std::move(roles));
  if (!fault.empty()) return fault;
  for (const BlockState& block : world.blocks) {
    for (size_t unit = 0; unit < c.steps.size(); ++unit) {
      if (block.finished[unit] != (world.taken[unit] ? c.finishers : 0)) return "a unit is not finished once";
    }
  }
  return {};
}

template <int stage_count>
std::string run_with(const Case& c) {
  if (c.makes) return c.dynamic ? run_as<stage_count, true, true>(c) : run_as<stage_count, false, true>(c);
  return c.dynamic ? run_as<stage_count, true, false>(c) : run_as<stage_count, false, false>(c);
}
std::string run(const Case& c) {
  switch (c.stages) {
    case 1:
      return run_with<1>(c);
    case 2:
      return run_with<2>(c);
    case 3:
      return run_with<3>(c);
    default:
      return run_with<6>(c);
  }
}

Case random_case(uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  const auto up_to = [&](uint32_t most) { return static_cast<uint32_t>(random() % (most + 1)); };
  Case c;
  c.seed = seed;
  c.blocks = 1 + up_to(1);
  c.finishers = 1u << up_to(2);
  constexpr std::array stages{1u, 2u, 3u, 6u};
  c.stages = stages[up_to(3)];
  c.dynamic = up_to(1) == 1;
  const uint32_t most_steps = up_to(8), units = 1 + up_to(9);
  for (uint32_t unit = 0; unit < units; ++unit) c.steps.push_back(up_to(4) == 0 ? 0 : up_to(most_steps));
  c.stride = 1 + up_to(2);
  c.first = c.dynamic ? 0 : up_to(std::min(c.stride, units) - 1);
  c.makes = up_to(1) == 1;
  return c;
}

TEST(Sm100Roles, NeitherWaitForeverNorReadOrWriteTooSoon) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(run(c), "") << "seed " << seed << ": " << c.blocks << " blocks, " << c.stages << " stages, "
                          << c.finishers << " finishers, " << c.steps.size() << " units"
                          << (c.dynamic ? ", dynamic" : "") << (c.makes ? ", A is made" : "");
  }
}

// What the model would not notice, it would not prove.
TEST(Sm100Roles, TheModelSeesEveryPlantedFault) {
  for (const Bar bar : {Bar::Full, Bar::Empty, Bar::Ready, Bar::Drained, Bar::Answer, Bar::Heard, Bar::Made}) {
    int deaf = 0, mute = 0, cases = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Case c = random_case(seed);
      c.dynamic = bar == Bar::Answer || bar == Bar::Heard || c.dynamic;
      // Products of an A that is made seldom come before the finishers.
      c.makes = bar == Bar::Made || (c.makes && bar != Bar::Drained);
      c.steps.assign(12, 5);
      if (c.dynamic) c.first = 0;
      ++cases;
      c.deaf = bar;
      deaf += run(c).empty() ? 0 : 1;
      c.deaf.reset();
      c.mute = bar;
      mute += run(c).empty() ? 0 : 1;
    }
    EXPECT_GT(deaf * 5, cases) << "nobody waits at barrier " << static_cast<int>(bar);
    EXPECT_GT(mute * 2, cases) << "an arrival is lost at barrier " << static_cast<int>(bar);
  }
}

TEST(Sm100Bits, InstructionDescriptorsAreThoseOfTheTable) {
  using ptx::instruction_descriptor;
  using ptx::MmaKind;
  const auto field = [](uint32_t descriptor, int first, int size) { return descriptor >> first & ((1u << size) - 1); };
  const uint32_t bf16 = instruction_descriptor(MmaKind::F16, 1, 1, true, true, 256, 256);
  EXPECT_EQ(bf16, 0x10400490u);
  const uint32_t mixed = instruction_descriptor(MmaKind::F8, 0, 1, true, false, 128, 96);
  EXPECT_EQ(field(mixed, 0, 4), 0u);   // dense, no saturation
  EXPECT_EQ(field(mixed, 4, 2), 1u);   // f32
  EXPECT_EQ(field(mixed, 7, 3), 0u);   // e4m3
  EXPECT_EQ(field(mixed, 10, 3), 1u);  // e5m2
  EXPECT_EQ(field(mixed, 13, 2), 0u);  // no negation
  EXPECT_EQ(field(mixed, 15, 1), 0u);  // A lies along K
  EXPECT_EQ(field(mixed, 16, 1), 1u);  // B along N
  EXPECT_EQ(field(mixed, 17, 6), 96u / 8);
  EXPECT_EQ(field(mixed, 23, 1), 0u);
  EXPECT_EQ(field(mixed, 24, 5), 128u / 16);
  EXPECT_EQ(field(mixed, 29, 3), 0u);
  const uint32_t integers = instruction_descriptor(MmaKind::I8, 0, 1, false, true, 128, 16);
  EXPECT_EQ(field(integers, 4, 2), 2u);   // s32
  EXPECT_EQ(field(integers, 7, 3), 0u);   // u8
  EXPECT_EQ(field(integers, 10, 3), 1u);  // s8
  EXPECT_EQ(field(integers, 15, 1), 1u);
  EXPECT_EQ(field(instruction_descriptor(MmaKind::Tf32, 2, 2, true, true, 128, 256), 7, 6), 2u | 2u << 3);
}

TEST(Sm100Bits, MatrixDescriptorsAreThoseOfTheTable) {
  const auto field = [](uint64_t descriptor, int first, int size) {
    return descriptor >> first & ((uint64_t{1} << size) - 1);
  };
  // Above 18 bits an address says which block of the cluster it is of.
  const uint64_t d = ptx::matrix_descriptor(0x01000000u + 0x12400u, 8192);
  EXPECT_EQ(field(d, 0, 14), 0x12400u >> 4);
  EXPECT_EQ(field(d, 14, 2), 0u);
  EXPECT_EQ(field(d, 16, 14), 8192u >> 4);
  EXPECT_EQ(field(d, 32, 14), 1024u >> 4);
  EXPECT_EQ(field(d, 46, 3), 1u);  // the fixed 0b001
  EXPECT_EQ(field(d, 49, 3), 0u);  // patterns begin at multiples of 1024
  EXPECT_EQ(field(d, 52, 1), 0u);  // offsets are relative
  EXPECT_EQ(field(d, 53, 8), 0u);
  EXPECT_EQ(field(d, 61, 3), 2u);  // 128-byte swizzle
}

TEST(Sm100Bits, ColumnsArePowersOfTwo) {
  for (uint32_t used = 1; used <= 512; ++used) {
    const uint32_t columns = ptx::allocated_columns(used);
    EXPECT_TRUE(columns >= used && columns >= 32 && columns <= 512 && (columns & (columns - 1)) == 0);
    EXPECT_TRUE(columns == 32 || columns < 2 * used);
  }
}

template <int cluster, bool splits>
void visits_everything_once(std::mt19937& random) {
  Problem p{};
  const auto up_to = [&](uint32_t most) { return static_cast<int64_t>(1 + random() % most); };
  p.tiles_m = up_to(20);
  p.tiles_n = up_to(20);
  p.batches = up_to(3);
  p.k = up_to(2000);
  p.k_slice = splits ? 64 * up_to(8) : 0;
  p.k_split = splits ? (p.k + p.k_slice - 1) / p.k_slice : 1;
  p.group = static_cast<u64>(up_to(12));
  const int64_t wide = (p.tiles_m + cluster - 1) / cluster * cluster, blocks_k = (p.k + 63) / 64;
  std::vector<int64_t> seen(static_cast<size_t>(wide * p.tiles_n * p.batches)), steps(seen.size());
  for (uint32_t rank = 0; rank < cluster; ++rank) {
    const Raster<cluster, 64, splits> raster(p, rank);
    for (uint32_t index = 0; index < raster.count; ++index) {
      const codetta::gpu::Unit u = raster.unit(index);
      ASSERT_TRUE(u.tile_m < wide && u.tile_n < p.tiles_n && u.batch < p.batches && u.slice < p.k_split);
      ASSERT_EQ(u.tile_m % cluster, rank);
      const auto at = static_cast<size_t>((u.batch * p.tiles_n + u.tile_n) * wide + u.tile_m);
      ++seen[at];
      steps[at] += u.blocks;
      ASSERT_GT(u.blocks, 0u);
    }
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], p.k_split);
    ASSERT_EQ(steps[i], blocks_k);
  }
}

TEST(Sm100Raster, EveryTileAndStepOnce) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    visits_everything_once<1, false>(random);
    visits_everything_once<2, false>(random);
    visits_everything_once<1, true>(random);
    visits_everything_once<2, true>(random);
  }
}

}  // namespace
}  // namespace codetta::gpu::sm100
