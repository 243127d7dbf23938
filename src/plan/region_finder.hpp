// SPDX-License-Identifier: Apache-2.0
// What the parts of the search for regions share: regions.cpp says what may be a kernel's, region_rounds.cpp leads the
// search, region_scopes.cpp says what a kernel loads and stores, region_products.cpp and region_maps.cpp make kernels.
//
// No cycles: a node's level is the last product or step that it depends on, in an order of these in which each comes
// behind what it needs. Products and steps read values of lower levels, and map kernels hold values of one level, put
// in groups whose order follows the graph.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/analyses.hpp"
#include "plan/regions.hpp"

namespace codetta::plan {

inline constexpr int32_t no_product = -1;

// Each with what it needs right in front of it, by the least number where there is a choice. Errors: E0901, where one
// waits for itself.
Result<std::vector<size_t>> order_of_needs(const std::vector<std::set<size_t>>& needs);

// Parts of one size are found by divisions; of others the position has to be compared.
bool parts_differ(const ir::Graph& graph, ir::NodeId join);
// What the kernel loads of other kernels' values, and its factors.
void add_reads(const KernelRegion& kernel, std::set<ir::NodeId>& read);
// A map's program and root space as lower_map gave them.
LoweredMap map_of(const KernelRegion& map);

class RegionFinder {
 public:
  // Products that are computed together, or must not be.
  struct Together {
    std::vector<ir::NodeId> products;
    bool operator==(const Together&) const = default;
  };
  RegionFinder(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options,
               const std::vector<Together>& apart);
  // Nothing where begins_anew(): the last of dissolved(), the products that have to be tried one by one, then changes
  // what was decided before.
  Result<ProgramRegions> run();
  [[nodiscard]] bool begins_anew() const { return begins_anew_; }
  [[nodiscard]] size_t tries() const { return tries_; }
  [[nodiscard]] const std::vector<std::pair<Together, Rejection>>& dissolved() const { return dissolved_; }

 private:
  using NodeId = ir::NodeId;
  using Key = std::vector<std::pair<uint32_t, uint32_t>>;
  struct Group {
    std::vector<NodeId> nodes;  // stored here
    KernelRegion region;
  };
  // Kernels of a level's values that no product's kernel computes; they share nothing with those of other levels.
  struct LevelMaps {
    std::vector<Group> groups;
    std::map<NodeId, size_t> group_of;  // of a stored value; the last one where parts lie in several
    std::vector<NodeId> reductions;     // that they compute; once for each kernel
  };

  struct Head {
    int32_t depth = 0;  // heads in a row in front of it
    bool product = false;
    NodeId node;
    Factor a{}, b{};               // of a product
    size_t level = 0;              // place of the last one that it is computed together with
    std::vector<size_t> together;  // of the last one: places of all, ascending; empty: it is alone
    bool makes_a = false;          // its A (B) is tried where it is read
    bool makes_b = false;
    bool tried_behind = false;       // its A, as map work behind another product
    bool tried_statistics = false;   // reductions of its A, by the product that stores what they reduce
    std::optional<NodeId> hooked{};  // of a step: the result that it hands over
  };

  [[nodiscard]] bool is_input(NodeId node) const { return graph_.node(node).op == types::Op::input; }
  [[nodiscard]] bool is_output(NodeId node) const { return !outputs_of_[node.index()].empty(); }
  [[nodiscard]] bool is_made(NodeId node) const { return is_step(graph_.node(node).op); }
  [[nodiscard]] const ir::GraphInput* input_of(NodeId node) const;
  // Of what a kernel loads, where it lies: without gaps; with elements of its last dim apart, as far as is known.
  [[nodiscard]] bool lies_contiguous(NodeId leaf) const;
  [[nodiscard]] bool lies_apart(NodeId leaf) const;
  // Whether it is read again where one of these outputs lies.
  [[nodiscard]] bool of_output(NodeId leaf, const std::vector<bool>& outputs) const;
  [[nodiscard]] const types::Dim& indexed_size(NodeId node) const {
    return graph_.type(graph_.operands(node)[0]).shape[static_cast<size_t>(graph_.attr_as<ir::TakeAttr>(node).dim)];
  }
  // The nodes of a level, or of none, in graph order.
  [[nodiscard]] const std::vector<NodeId>& of_level(int32_t level) const {
    return level == no_product ? of_no_level_ : of_level_[static_cast<size_t>(level)];
  }
  // Computed by a product's kernel, or by a step's that hands over what it is computed from.
  [[nodiscard]] bool of_product(NodeId node) const { return level_[node.index()] != no_product && !cut_[node.index()]; }
  [[nodiscard]] bool is_hooked(NodeId node) const { return hooked_[node.index()]; }
  [[nodiscard]] bool is_stored(NodeId node) const { return stored_[node.index()]; }
  [[nodiscard]] uint32_t device_of(NodeId node) const {
    return options_.devices.empty() ? 0 : options_.devices[node.index()];
  }

  // ---- rounds (region_rounds.cpp) ----
  // Decisions grow: what is cut off, or in memory, stays so but for statistics.
  void cut_off(NodeId node);
  void force(NodeId node);
  void find_readers();
  void find_needed();
  // Whether other kernels read it, or the program returns it, by what its readers are; whether that is new.
  bool find_stored(NodeId node);
  // What a node's kernel reads: factors of a product by where they lie.
  [[nodiscard]] std::vector<NodeId> read_by(NodeId node) const;
  // What has changed since is followed to values that are stored, and to the kernels that are to be tried again.
  void follow_changes();
  void try_again_above(const std::vector<NodeId>& nodes);
  void try_again(int32_t level);
  void try_product_again(size_t place);
  // Products that were tried together go on one by one, as if they had from the start, where nothing was decided that
  // could have come out otherwise; whether that is so.
  bool take_apart(size_t place);
  // Inputs that a step cannot read as they are: numbers, and what lies in pieces where it must not.
  void force_operands(NodeId step);
  // What products read of the caller's goes to a temporary first: an input, or beside an output.
  void force_factors();
  void note(NodeId node, std::string_view what, const Error& error);
  // Products in the order of the program, each with what it needs right in front of it; then the rest.
  [[nodiscard]] Result<std::vector<size_t>> execution_order(const std::vector<KernelRegion>& kernels) const;

  // ---- scopes: what a kernel loads, and where it stores ----
  // Walks back from `from`; `here`: whether a stored node is computed in this kernel all the same.
  std::vector<NodeId> leaves_of(const std::vector<NodeId>& from, const KernelRegion& region,
                                const std::function<bool(NodeId)>& here) const;
  // A graph input that is copied in front is read from its copy; the copy itself reads the input.
  [[nodiscard]] LoweringScope scope_of(const KernelRegion& region) const;
  [[nodiscard]] bool copied(NodeId input, const KernelRegion& region) const;
  [[nodiscard]] std::string name_of(NodeId node) const;
  // A step that writes to its results' places with strides of its own, or by plain copies, cannot write an output; what
  // is read again as if it lay without gaps goes to a temporary first.
  [[nodiscard]] bool writes_output(NodeId made, uint32_t output) const;
  // Where a step puts a result: the first output that can have it as it is, else a temporary.
  [[nodiscard]] StoredValue place_of_result(NodeId node) const;
  // The parts that a join is stored by, in order. A part that is a join, of parts whose sizes differ, and is not stored
  // itself, has its own parts stored where they belong.
  [[nodiscard]] std::vector<PartPath> parts_of(NodeId join) const;
  [[nodiscard]] bool is_inner_join(NodeId part) const;
  [[nodiscard]] NodeId part_at(NodeId join, const PartPath& path) const;
  [[nodiscard]] std::vector<LoweringScope::Output::Along> along_of(NodeId join, const PartPath& path) const;
  // Every place where a node goes: outputs of the program, and a temporary where others read it and no output has it.
  // Of what a step makes: where it is copied to.
  [[nodiscard]] std::vector<StoredValue> places_of(NodeId node, NodeId target, const PartPath& part) const;
  Key key_of(const KernelRegion& region) const;

  // ---- indices that kernels read by ----
  // What holds the elements of an index: the value itself but for its layout.
  [[nodiscard]] NodeId index_source(NodeId index) const;
  // Whether no element can be out of range: literals have been looked at where they have a size, and arange counts.
  [[nodiscard]] bool known_in_range(NodeId node, NodeId source) const;
  // Indices that are computed are stored in front of the kernel that reads by them.
  void find_indices();
  void find_reads(KernelRegion& region) const;

  // ---- products and steps ----
  // Products of one A, of one type, that need as many others in front of them, so that none needs another.
  void find_together(const std::vector<Together>& apart);
  // A kernel of the products of these heads, without what follows them.
  [[nodiscard]] KernelRegion region_of(const std::vector<size_t>& heads) const;
  // The same of products that differ in columns: of heads with one A that a kernel may share, sets of two and more.
  std::vector<std::vector<size_t>> find_spaces(const std::vector<size_t>& heads, const std::vector<Together>& apart);
  // Whether a kernel of a GPU can read the factor as an operand.
  [[nodiscard]] bool is_operand(const Factor& factor) const;
  void dissolve(const KernelRegion& region, Rejection why);
  // Factors that depend on no product and that nothing else reads.
  void find_made();
  void find_made_of(size_t place);
  // An A that is map work behind an earlier product, once that is known.
  void find_made_behind(NodeId source);
  // Reductions of a made A that were cut off are tried where what they reduce is stored, once; whether there are any.
  bool add_statistics();
  // Reductions that a factor reads, whose product could compute them beside the rows; what else is stored behind it.
  struct Statistics {
    int32_t level = no_product;
    std::vector<NodeId> nodes, others;
  };
  [[nodiscard]] std::optional<Statistics> statistics_for(const MadeFactor& made) const;
  // Whether `from` is computed from what the product makes, other than by way of these reductions.
  [[nodiscard]] bool reads_rows(NodeId from, const Statistics& of) const;
  // Of these reductions and what they are computed from, what is cut off the product of their level.
  [[nodiscard]] std::set<NodeId> cut_under(const Statistics& of) const;
  // Whether what a kernel behind the product stores is needed for them.
  [[nodiscard]] bool needs_others(const Statistics& of) const;
  // Why these, or what they read, had been cut off, which is no more so, unless they are dropped.
  void take_back_notes(const Statistics& of);
  // The product makes none of them any more.
  void cut_statistics(int32_t level);
  void drop_statistics(const KernelRegion& region, const Error& error);
  [[nodiscard]] bool is_statistic(NodeId node) const { return statistic_[node.index()] && !cut_[node.index()]; }
  // Whether it lies nowhere but for its product; `readers`: heads that read it.
  [[nodiscard]] bool can_make(const Head& head, bool is_a, size_t readers) const;
  // The reductions among a factor's leaves that nothing but the factor needs: others are computed in any case.
  [[nodiscard]] std::vector<NodeId> own_reductions(const MadeFactor& made) const;
  // What these cost, and what they and the factor would in one map.
  std::optional<Error> add_reductions(MadeFactor& made);
  [[nodiscard]] std::vector<const Head*> heads_at(size_t place) const;
  // Why a factor cannot be computed in blocks; else it is in the region.
  std::optional<Error> make_factor(KernelRegion& region, const Factor& factor, bool is_a);
  // All of them, or `changed_`: one is stored in front instead.
  void make_factors(KernelRegion& region, size_t place);
  // The factors become a part of the product's program.
  std::optional<Error> take_inside(KernelRegion& region) const;
  void make_in_front(const KernelRegion& region, const Error& error);
  Result<void> find_product(size_t place);
  void add_step(size_t place);
  // ---- steps that hand a result over (region_hooks.cpp)
  void find_hooked();
  Result<void> add_hooked(size_t place);
  // What of the nodes behind the result cannot run at single elements, and why.
  [[nodiscard]] std::optional<std::pair<NodeId, Rejection>> unhooked(size_t place, const std::vector<NodeId>& outputs,
                                                                     const std::vector<NodeId>& leaves) const;
  [[nodiscard]] std::optional<Rejection> refuses_hook(const KernelRegion& region) const;
  Result<void> lower_product(size_t place, KernelRegion region);
  // Behind the product `failed` and what depends on it becomes map work; a value in front of it is stored.
  Result<void> cut_at(NodeId product, NodeId failed, const Error& error);
  Result<void> cut_reductions(NodeId product, NodeId first, const Error& error, const Rejection& why);
  // The first value behind the product in its kernel, or the first reduction there.
  [[nodiscard]] std::optional<NodeId> first_behind(NodeId product, bool reductions_only) const;
  // Why sizes that are 0 leave stores of the kernel unmade, where that is asked for.
  [[nodiscard]] std::optional<Error> misses(const package::EpilogueProgram& program, bool in_product,
                                            const types::Dim& batch, const types::Dim& rows,
                                            const types::Dim& cols) const;

  // ---- maps ----
  Result<void> find_maps(int32_t level);
  // Whether one map makes a join by the element's position; decided once.
  bool selects(NodeId join);
  // Those that a map of it would choose parts of: it and what it is made of, as far as it would be computed there.
  [[nodiscard]] std::vector<NodeId> joins_in(NodeId join) const;
  // What its parts take in kernels of their own; nothing where one has none.
  std::optional<double> apart_us(NodeId join);
  // Into a group in front of which all that it needs is computed, if one shares its work; else into a new one.
  Result<void> place(LevelMaps& maps, NodeId node, NodeId target, const PartPath& part);
  // Of what a map would store in its own way where none has the axes for it.
  std::optional<CopiedView> copied_view(NodeId node, const std::vector<NodeId>& leaves) const;
  // Maps store no temporary that no kernel reads in the end, since what was to read it is computed with it.
  void drop_unread(std::vector<KernelRegion>& kernels);
  // A reduction that several maps would compute is stored; whether there are any.
  bool store_computed_again();
  // Joins of what several products make, which no kernel of one of them puts together, are behind none of them from the
  // start: a kernel that failed with one would be left without more than that.
  void cut_joins();
  [[nodiscard]] bool joins_products(NodeId join) const;
  // Whether a product's kernel stores the value, and may store it in a join as well.
  [[nodiscard]] bool may_place(NodeId part) const;
  // Whether all sizes that say where the part lies have values in front of its product: those that a run computes may
  // come from that very product.
  [[nodiscard]] bool is_known_in_front(const StoredValue& place, NodeId part) const;
  // Parts of joins that products' kernels store and maps would copy: the former store them where the join has them
  // (region_parts.cpp), which needs no search, since nobody else reads less or more than before.
  void place_parts(std::vector<KernelRegion>& kernels);
  // A map without what copies the part, of no stores where that was all; none where it can't be lowered.
  std::optional<KernelRegion> without_part(const KernelRegion& map, NodeId part);
  // A product's kernel that stores the part in these places, too; `keeps`: and where it lies by itself.
  Result<KernelRegion> with_parts(const KernelRegion& product, NodeId part, const std::vector<StoredValue>& places,
                                  bool keeps);
  // Rounds try the same regions again.
  Result<LoweredMap> try_map(const KernelRegion& region, NodeId* failed);
  // Of what `node` is computed from: the value nearest to the middle, by reductions, that all behind it goes through.
  // With it in memory neither half computes anything of the other.
  std::optional<NodeId> waist_of(NodeId node, const std::vector<NodeId>& leaves) const;
  // The first of the values that it is made of that reads half of the leaves: what is in front of it and what is behind
  // are about as large.
  std::optional<NodeId> half_of(NodeId node, const std::vector<NodeId>& leaves) const;
  // Where a launch could not pass what the kernel reads, stores and reduces; told at this node.
  std::optional<Error> too_many(const package::EpilogueProgram& program, NodeId node) const;
  // A map that cannot be lowered needs one of its values in memory.
  Result<void> store_in_front(NodeId node, NodeId target, NodeId failed, const std::vector<NodeId>& leaves,
                              const Error& error);

  const ir::Graph& graph_;
  const Refusal& refuses_;
  const RegionOptions& options_;
  const ir::SizeSources sizes_;
  // What defines the sizes of a node that values give: heads in front of it.
  [[nodiscard]] std::span<const NodeId> sizes_of(NodeId node) const {
    return sizes_.needed.empty() ? std::span<const NodeId>() : sizes_.needed[node.index()];
  }
  void find_heads();
  std::vector<Head> heads_;      // products and steps, each behind what it needs
  std::vector<size_t> head_of_;  // by node, of heads
  std::vector<std::pair<Together, Rejection>> dissolved_;
  bool begins_anew_ = false;
  size_t groups_ = 0;                              // of products that are tried together
  size_t furthest_ = 0;                            // place that was tried
  std::set<size_t> decided_;                       // places at which something was decided
  std::vector<int32_t> level_;                     // by node: the last head that it depends on
  std::vector<std::vector<NodeId>> of_level_;      // by level: in graph order
  std::vector<NodeId> of_no_level_;                // what depends on no head
  std::vector<bool> cut_, forced_;                 // by node, growing: not behind its product; in memory
  std::vector<bool> beside_;                       // by node: in a temporary beside its outputs, which may have gaps
  std::vector<bool> statistic_;                    // by node: tried where what it reduces is stored, or there
  std::map<int32_t, RowStatistics> statistics_;    // by level: with those of this product
  std::vector<uint32_t> users_;                    // by node: operands and outputs that it is
  std::vector<bool> hooked_;                       // by node: a result that its step hands over
  std::vector<bool> looked_at_;                    // by node: an index in memory that is checked
  std::vector<std::vector<uint32_t>> outputs_of_;  // by node: of the program
  std::vector<std::vector<NodeId>> readers_;       // by node: whom read_by() tells it of
  std::vector<bool> needed_, stored_, read_;       // by node, as things stand; read_: by another kernel
  // Computed where a product reads it; reductions are in memory.
  std::vector<bool> of_factor_;
  std::vector<std::optional<KernelRegion>> products_;  // and steps, by place
  std::vector<LevelMaps> maps_;                        // by level, from no_product
  std::vector<uint32_t> computed_;                     // by node: in how many maps, of reductions
  std::vector<NodeId> computed_again_;                 // in more than one, since that was looked at
  // What is to be tried again: products and steps by place, maps by level.
  std::set<size_t> stale_products_;
  std::set<int32_t> stale_maps_;
  std::vector<NodeId> changed_nodes_;  // of which something has been decided that was not followed yet
  std::vector<size_t> changed_places_;
  std::vector<std::vector<size_t>> read_a_of_;          // by level: places whose A is of it
  std::map<size_t, std::set<size_t>> read_statistics_;  // by place: those that it reduced rows for
  std::set<size_t> untried_;                            // products with factors whose reductions may be tried elsewhere
  std::vector<uint32_t> reached_;                       // by node: by which search, last
  mutable std::vector<bool> loses_index_, compared_;    // of LoweringScope
  std::vector<bool> selected_;                          // of LoweringScope; empty: none
  std::map<Key, bool> decided_joins_;
  uint32_t searches_ = 0;
  std::map<Key, Lowered> known_;    // products that have been lowered and are taken so
  std::map<Key, Lowered> lowered_;  // that have been lowered, whatever came of it
  std::map<Key, LoweredMap> known_maps_;
  std::vector<FusionNote> notes_;
  std::map<int32_t, std::vector<FusionNote>> taken_back_;  // by level
  std::map<NodeId, Rejection> apart_;  // stored values that were not put where what they read is made
  bool changed_ = false;               // by the kernel that was tried last
  size_t tries_ = 0;
};

}  // namespace codetta::plan
