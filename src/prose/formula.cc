#include "prose/formula.h"

#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace headproof {
namespace {

/// Names and what they show, in turn. A name is a character, a command's letters, or a command of
/// one character with its backslash.
struct Family {
  Form form;
  Role role;
  std::string_view names;
};
constexpr Family families[] = {
    {Form::letter, Role::ordinary,
     "alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ iota ι kappa κ "
     "lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ phi φ varphi φ chi χ psi ψ omega ω ell ℓ "
     "partial ∂ nabla ∇ infty ∞ emptyset ∅ top ⊤ bot ⊥ forall ∀ exists ∃ ldots … dots … cdots ⋯"},
    {Form::word, Role::ordinary,
     "Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω"},
    {Form::mark, Role::large, "sum ∑ prod ∏"},
    {Form::word, Role::large, "max max min min sup sup inf inf lim lim"},
    {Form::word, Role::function,
     "log log ln ln exp exp sin sin cos cos tanh tanh det det dim dim ker ker"},
    {Form::mark, Role::binary,
     "+ + - − * * cdot · times × pm ± circ ∘ odot ⊙ otimes ⊗ oplus ⊕ cup ∪ cap ∩ setminus ∖ "
     "wedge ∧ vee ∨"},
    {Form::mark, Role::relation,
     "= = < < > > : : le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ lt < gt > ll ≪ gg ≫ equiv ≡ approx ≈ sim ∼ "
     "propto ∝ in ∈ notin ∉ subset ⊂ subseteq ⊆ to → rightarrow → leftarrow ← mapsto ↦ "
     "Rightarrow ⇒ implies ⇒ iff ⇔ mid |"},
    {Form::mark, Role::open, "( ( [ [ \\{ { langle ⟨ lfloor ⌊ lceil ⌈ lvert | lVert ‖"},
    {Form::mark, Role::close, ") ) ] ] \\} } rangle ⟩ rfloor ⌋ rceil ⌉ rvert | rVert ‖ ! !"},
    {Form::mark, Role::ordinary, "| | \\| ‖ / / . ."},
    {Form::mark, Role::punctuation, ", , ; ; colon :"},
    {Form::space, Role::space, "\\, 0.17em \\: 0.22em \\; 0.28em ~ 0.28em quad 1em qquad 2em"},
    // Accents, by the character that combines with a letter.
    {Form::accent, Role::ordinary,
     "hat \u0302 widehat \u0302 bar \u0304 overline \u0304 tilde \u0303 widetilde \u0303"},
};

// Commands that only ask for another size or style.
constexpr std::string_view ignored[] = {"big",    "Big",          "bigl",   "bigr",
                                        "Bigl",   "Bigr",         "biggl",  "biggr",
                                        "limits", "displaystyle", "middle", "\\!"};

// A formula nested deeper than this is not a formula that anyone typed.
constexpr int deepest_nesting = 50;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// What a name shows; a node without text when the name is unknown.
Node symbol(std::string_view name) {
  for (const Family& family : families) {
    for (std::string_view rest = family.names; !rest.empty();) {
      const std::string_view known = take_word(rest), shown = take_word(rest);
      if (known == name) return {family.form, family.role, std::string(shown)};
    }
  }
  return {};
}

/// The letters of \mathbb or \mathbf. Their mathematical alphabets are contiguous in Unicode, but
/// for the blackboard letters that it had before.
std::string in_alphabet(std::string_view letters, bool blackboard) {
  constexpr std::string_view before = "CHNPQRZ";
  constexpr std::u32string_view those_before = U"ℂℍℕℙℚℝℤ";
  std::u32string styled;
  for (const char c : letters) {
    const auto from = [c](char32_t start, char first) {
      return start + static_cast<char32_t>(c - first);
    };
    const std::size_t exception = before.find(c);
    if (blackboard && exception != std::string_view::npos) {
      styled += those_before[exception];
    } else if (c >= 'A' && c <= 'Z') {
      styled += from(blackboard ? U'𝔸' : U'𝐀', 'A');
    } else if (c >= 'a' && c <= 'z') {
      styled += from(blackboard ? U'𝕒' : U'𝐚', 'a');
    } else if (is_digit(c)) {
      styled += from(blackboard ? U'𝟘' : U'𝟎', '0');
    } else {
      styled += static_cast<unsigned char>(c);
    }
  }
  std::string bytes;
  utf8::unchecked::utf32to8(styled.begin(), styled.end(), std::back_inserter(bytes));
  return bytes;
}

/// Reads one formula. Whatever is malformed makes the whole formula malformed.
class Parser {
 public:
  explicit Parser(std::string_view tex) : tex_(tex) {}

  /// The formula; an empty row when it is malformed.
  Row formula() {
    Row result = row();
    if (at_ < tex_.size()) well_formed_ = false;  // a closing brace or \right without its partner
    return well_formed_ ? result : Row{};
  }

 private:
  bool done() const { return !well_formed_ || at_ >= tex_.size(); }

  bool take(std::string_view expected) {
    if (!tex_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  void skip_blanks() {
    while (at_ < tex_.size() && (tex_[at_] == ' ' || tex_[at_] == '\n')) ++at_;
  }

  Node malformed() {
    well_formed_ = false;
    return {};
  }

  /// Everything up to a closing brace, a \right or the end.
  Row row() {
    Row result;
    if (++depth_ > deepest_nesting) well_formed_ = false;
    for (skip_blanks(); !done(); skip_blanks()) {
      const std::string_view rest = tex_.substr(at_);
      if (rest.front() == '}' || rest.starts_with("\\right")) break;
      if (rest.front() == '^' || rest.front() == '_' || rest.front() == '\'') {
        read_script(result);
        continue;
      }
      Node node = atom();
      if (node.text.empty() && node.children.empty()) continue;
      // A minus that follows nothing, or an operator, is a sign.
      const Role before = result.empty() ? Role::open : result.back().role;
      if (node.role == Role::binary && before != Role::ordinary && before != Role::close) {
        node.role = Role::sign;
      }
      result.push_back(std::move(node));
    }
    --depth_;
    return result;
  }

  void read_script(Row& row_before) {
    if (row_before.empty()) row_before.push_back({Form::group, Role::ordinary});
    Node& base = row_before.back();
    const char mark = tex_[at_++];
    if (mark == '\'') {
      base.sup.push_back({Form::letter, Role::ordinary, "′"});
      return;
    }
    Row& script = mark == '^' ? base.sup : base.sub;
    if (!script.empty()) well_formed_ = false;
    script = argument();
  }

  /// What a command or a script applies to: a group in braces, or one atom.
  Row argument() {
    skip_blanks();
    if (done()) return malformed(), Row{};
    if (!take("{")) {
      if (tex_[at_] == '}' || tex_[at_] == '^' || tex_[at_] == '_') return malformed(), Row{};
      return {atom()};
    }
    Row result = row();
    if (!take("}")) well_formed_ = false;
    if (result.empty()) result.push_back({Form::group, Role::ordinary});
    return result;
  }

  Node grouped_argument() { return {Form::group, Role::ordinary, "", argument()}; }

  /// The characters of an argument in braces, as they stand.
  std::string raw_argument() {
    if (!take("{")) return malformed(), "";
    const std::size_t end = tex_.find('}', at_);
    if (end == std::string_view::npos) return malformed(), "";
    const std::string_view raw = tex_.substr(at_, end - at_);
    at_ = end + 1;
    return std::string(raw);
  }

  /// One letter, number, mark, group or command with its arguments. Without text and children it
  /// stands for nothing.
  Node atom() {
    const std::string_view rest = tex_.substr(at_);
    if (rest.front() == '\\') return command();
    if (take("{")) {
      --at_;
      return grouped_argument();
    }
    if (is_digit(rest.front())) {
      std::size_t end = 1;
      while (end < rest.size() &&
             (is_digit(rest[end]) ||
              (rest[end] == '.' && end + 1 < rest.size() && is_digit(rest[end + 1])))) {
        ++end;
      }
      at_ += end;
      return {Form::number, Role::ordinary, std::string(rest.substr(0, end))};
    }
    const std::string_view character = rest.substr(0, character_bytes(rest));
    at_ += character.size();
    if (is_letter(rest.front())) return {Form::letter, Role::ordinary, std::string(character)};
    Node known = symbol(character);
    if (!known.text.empty()) return known;
    return {Form::mark, Role::ordinary, std::string(character)};
  }

  std::string_view command_name() {
    const std::size_t start = ++at_;
    while (at_ < tex_.size() && is_letter(tex_[at_])) ++at_;
    if (at_ > start) return tex_.substr(start, at_ - start);
    if (at_ < tex_.size()) ++at_;
    return tex_.substr(start - 1, at_ - start + 1);
  }

  Node command() {
    std::string_view name = command_name();
    if (name == "\\ ") name = "~";
    if (name == "left") return fenced();
    if (name == "frac" || name == "tfrac" || name == "dfrac") {
      Node numerator = grouped_argument();
      return {Form::fraction, Role::ordinary, "", {std::move(numerator), grouped_argument()}};
    }
    if (name == "sqrt") return {Form::root, Role::ordinary, "", argument()};
    if (name == "operatorname") {
      const Role role = take("*") ? Role::large : Role::function;
      return {Form::word, role, raw_argument()};
    }
    if (name == "mathrm") return {Form::word, Role::ordinary, raw_argument()};
    if (name == "text") return {Form::text, Role::ordinary, raw_argument()};
    if (name == "mathbb" || name == "mathbf") {
      return {Form::word, Role::ordinary, in_alphabet(raw_argument(), name == "mathbb")};
    }
    if (std::find(std::begin(ignored), std::end(ignored), name) != std::end(ignored)) return {};
    Node known = symbol(name);
    if (known.text.empty()) return malformed();
    if (known.form == Form::accent) known.children = argument();
    return known;
  }

  /// What stands between \left and \right, with its two fences; a fence that is a point is none.
  Node fenced() {
    Row inside = {atom_or_malformed()};
    for (Node& node : row()) inside.push_back(std::move(node));
    if (!take("\\right")) well_formed_ = false;
    inside.push_back(atom_or_malformed());
    return {Form::fenced, Role::ordinary, "", std::move(inside)};
  }

  Node atom_or_malformed() { return done() ? malformed() : atom(); }

  std::string_view tex_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool well_formed_ = true;
};

}  // namespace

Row parse_formula(std::string_view tex) { return Parser(tex).formula(); }

std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size());
}

std::string_view take_word(std::string_view& words) {
  const std::string_view word = words.substr(0, words.find(' '));
  words.remove_prefix(std::min(word.size() + 1, words.size()));
  return word;
}

}  // namespace headproof
