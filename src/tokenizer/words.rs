//! The words that synthetic prompts are made of, and the rule that counts words as tokens.
//!
//! Short, common and all different, so that a prompt reads like text of its length and each word is about one
//! token for any tokenizer. The list is part of what a seed means: words may be added in a new version only.

/// Lower-case English words, each once, in alphabetical order.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    "able", "about", "above", "acid", "across", "act", "add", "after", "again", "age", "ago", "agree",
    "air", "all", "allow", "almost", "alone", "along", "also", "always", "among", "angle", "animal",
    "answer", "any", "apple", "area", "arm", "army", "around", "arrive", "art", "ask", "away", "baby",
    "back", "bad", "bag", "bake", "ball", "band", "bank", "bar", "base", "basket", "bath", "beach", "bean",
    "bear", "beat", "bed", "bee", "before", "begin", "behind", "bell", "below", "belt", "bench", "best",
    "better", "big", "bird", "bit", "black", "blade", "block", "blood", "blow", "blue", "board", "boat",
    "body", "bone", "book", "boot", "born", "both", "bottle", "bottom", "bowl", "box", "boy", "branch",
    "brave", "bread", "break", "breath", "brick", "bridge", "bright", "bring", "broad", "brother", "brown",
    "brush", "build", "burn", "bus", "busy", "but", "butter", "button", "buy", "cake", "call", "calm",
    "camp", "can", "cap", "car", "card", "care", "carry", "case", "cat", "catch", "cause", "cave", "chain",
    "chair", "chalk", "change", "cheap", "cheese", "chest", "chief", "child", "choose", "circle", "city",
    "clay", "clean", "clear", "climb", "clock", "close", "cloth", "cloud", "coal", "coast", "coat", "cold",
    "color", "comb", "come", "common", "cook", "cool", "copper", "copy", "corn", "corner", "cost", "cotton",
    "count", "cover", "cow", "crack", "cream", "creek", "crop", "cross", "crowd", "crown", "cry", "cup",
    "curve", "cut", "dance", "dark", "day", "deep", "deer", "desk", "dig", "dinner", "dish", "dive", "dog",
    "door", "doubt", "down", "draw", "dream", "dress", "drink", "drive", "drop", "drum", "dry", "duck",
    "dust", "each", "ear", "early", "earth", "east", "easy", "eat", "edge", "egg", "eight", "elbow",
    "empty", "end", "engine", "enough", "enter", "equal", "even", "evening", "ever", "every", "eye", "face",
    "fact", "fair", "fall", "family", "far", "farm", "fast", "father", "feather", "feed", "feel", "fence",
    "few", "field", "fight", "fill", "film", "find", "fine", "finger", "fire", "first", "fish", "five",
    "flag", "flame", "flat", "floor", "flour", "flow", "flower", "fly", "fog", "fold", "follow", "food",
    "foot", "forest", "fork", "form", "forty", "four", "fox", "free", "fresh", "friend", "frog", "front",
    "fruit", "full", "fun", "garden", "gas", "gate", "gather", "ghost", "gift", "girl", "give", "glad",
    "glass", "glove", "go", "goat", "gold", "good", "grain", "grape", "grass", "gray", "great", "green",
    "ground", "group", "grow", "guard", "guess", "guide", "hair", "half", "hall", "hammer", "hand", "happy",
    "hard", "harvest", "hat", "hay", "head", "heart", "heat", "heavy", "help", "hen", "herb", "here",
    "high", "hill", "hold", "hole", "home", "honey", "hook", "hope", "horn", "horse", "hour", "house",
    "how", "hundred", "hunt", "ice", "idea", "inch", "ink", "iron", "island", "ivory", "jacket", "jar",
    "jelly", "job", "join", "joke", "judge", "juice", "jump", "keep", "key", "kick", "kind", "king",
    "kitchen", "kite", "knee", "knife", "knock", "know", "lake", "lamb", "lamp", "land", "language",
    "large", "last", "late", "laugh", "lawn", "lead", "leaf", "learn", "leather", "left", "leg", "lemon",
    "less", "letter", "level", "library", "light", "lime", "line", "lion", "lip", "list", "little", "live",
    "local", "log", "long", "look", "lose", "loud", "love", "low", "lunch", "machine", "make", "man",
    "many", "map", "march", "mark", "market", "match", "meal", "mean", "meat", "melt", "member", "metal",
    "middle", "mile", "milk", "mill", "mind", "mine", "minute", "mirror", "miss", "mist", "mix", "model",
    "money", "month", "moon", "morning", "moth", "mother", "motor", "mountain", "mouse", "mouth", "move",
    "mud", "music", "nail", "name", "narrow", "near", "neck", "needle", "nest", "net", "never", "new",
    "next", "night", "nine", "noise", "noon", "north", "nose", "note", "now", "number", "nut", "oak", "oar",
    "ocean", "offer", "office", "often", "oil", "old", "olive", "once", "onion", "open", "orange", "order",
    "other", "out", "oven", "over", "owl", "own", "oxen", "page", "paint", "pair", "palm", "pan", "paper",
    "park", "part", "party", "pass", "past", "path", "peace", "pear", "pen", "pencil", "people", "pepper",
    "piano", "pick", "picture", "piece", "pig", "pillow", "pilot", "pin", "pine", "pink", "pipe", "place",
    "plan", "plant", "plate", "play", "plow", "plum", "pocket", "poem", "point", "pole", "pond", "pony",
    "pool", "poor", "porch", "port", "post", "pot", "pour", "powder", "press", "price", "print", "proud",
    "pull", "pump", "pure", "push", "quick", "quiet", "quilt", "rabbit", "race", "rail", "rain", "raise",
    "ranch", "rat", "reach", "read", "ready", "red", "reed", "rest", "rice", "rich", "ride", "right",
    "ring", "ripe", "rise", "river", "road", "roast", "rock", "roll", "roof", "room", "root", "rope",
    "rose", "rough", "round", "row", "rule", "run", "rush", "sad", "saddle", "safe", "sail", "salt", "same",
    "sand", "save", "say", "school", "sea", "seat", "second", "seed", "seem", "sell", "send", "seven",
    "shade", "shake", "shape", "share", "sharp", "sheep", "sheet", "shelf", "shell", "shine", "ship",
    "shirt", "shoe", "shop", "shore", "short", "shout", "show", "shut", "side", "silk", "silver", "simple",
    "sing", "sister", "sit", "six", "size", "skate", "skill", "skin", "sky", "sleep", "slice", "slide",
    "slow", "small", "smell", "smile", "smoke", "smooth", "snow", "soap", "soft", "soil", "song", "soon",
    "sound", "soup", "south", "space", "speak", "spell", "spend", "spice", "spoon", "spot", "spring",
    "square", "stage", "stair", "stamp", "stand", "star", "start", "station", "stay", "steam", "steel",
    "stem", "step", "stick", "still", "stone", "stop", "store", "storm", "story", "stove", "straw",
    "stream", "street", "string", "strong", "study", "sugar", "summer", "sun", "sweet", "swim", "swing",
    "table", "tail", "take", "talk", "tall", "taste", "tea", "teach", "team", "tell", "ten", "tent",
    "thank", "thick", "thin", "thing", "think", "third", "thread", "three", "throat", "throw", "thumb",
    "ticket", "tide", "tie", "tiger", "time", "tin", "tired", "toast", "today", "toe", "tomato", "tongue",
    "tool", "tooth", "top", "touch", "towel", "tower", "town", "toy", "track", "trade", "train", "travel",
    "tray", "tree", "trip", "truck", "true", "trunk", "trust", "try", "tube", "tune", "turn", "turtle",
    "twelve", "twenty", "twice", "two", "uncle", "under", "until", "upper", "use", "valley", "very", "view",
    "village", "vine", "violin", "visit", "voice", "wagon", "wait", "wake", "walk", "wall", "warm", "wash",
    "watch", "water", "wave", "wax", "way", "wear", "weather", "week", "weigh", "well", "west", "wet",
    "whale", "wheat", "wheel", "when", "where", "white", "wide", "wild", "win", "wind", "window", "wing",
    "winter", "wire", "wise", "wish", "wolf", "wonder", "wood", "wool", "word", "work", "world", "worm",
    "worth", "write", "yard", "year", "yellow", "yes", "yesterday", "young", "zero",
];

/// How many words the list has; the id of a word is its place in it, and this number stands for every word
/// that is not in it.
#[expect(clippy::cast_possible_truncation, reason = "the list is a screen long")]
pub const KNOWN: u32 = WORDS.len() as u32;

/// What an unknown word is decoded as.
const UNKNOWN: &str = "?";

/// Words between blanks.
pub(in crate::tokenizer) fn count(text: &str) -> usize {
    text.split_ascii_whitespace().count()
}

pub(in crate::tokenizer) fn encode(text: &str) -> Vec<u32> {
    let place = |word| WORDS.binary_search(&word).ok().and_then(|place| u32::try_from(place).ok());
    text.split_ascii_whitespace().map(|word| place(word).unwrap_or(KNOWN)).collect()
}

pub(in crate::tokenizer) fn decode(tokens: &[u32]) -> String {
    let word = |id: &u32| usize::try_from(*id).ok().and_then(|place| WORDS.get(place)).copied();
    tokens.iter().map(|id| word(id).unwrap_or(UNKNOWN)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_and_known_ones_survive_a_round_trip() {
        for (text, tokens) in
            [("", 0), ("  ", 0), ("able about", 2), (" able\nzero  air ", 3), ("Xyzzy able", 2)]
        {
            assert_eq!((count(text), encode(text).len()), (tokens, tokens), "{text:?}");
        }
        assert_eq!(decode(&encode("able zero air")), "able zero air");
        assert_eq!(decode(&encode("able Xyzzy")), "able ?");
    }

    #[test]
    fn words_are_plain_distinct_and_sorted() {
        assert!(WORDS.len() > 500);
        assert!(
            WORDS.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
        );
        assert!(WORDS.windows(2).all(|pair| pair.first() < pair.last()));
    }
}
