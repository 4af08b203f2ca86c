extension Unicode.Scalar {
    /// Whether it is a control character (Unicode's category Cc): no id and no name has one, because terminals do what they say.
    package var isControl: Bool { value < 0x20 || (0x7F...0x9F).contains(value) }
}
