import Testing

@testable import rightful

@Suite("Configuration where memory is short")
struct MemoryConfigurationTests {
    private static func read(
        _ file: String = "{}", environment: [String: String] = [:], memory: Int
    ) throws -> Configuration {
        try Configuration(
            ConfigurationInput(
                environment: environment, file: (path: "/c.json", content: Array(file.utf8)), memory: memory))
    }

    @Test(
        "answers take an eighth of the memory that the process may use, 256 MiB at the most, unless something else is said",
        arguments: [(384, 48), (512, 64), (1024, 128), (2048, 256), (16_384, 256)])
    func answers(memory: Int, expected: Int) throws {
        #expect(try Self.read(memory: memory).answerMemoryMiB == expected)
        #expect(try Self.read(#"{"answer_memory_mib": 1024}"#, memory: memory).answerMemoryMiB == 1024)
    }

    @Test("a limit below what a ledger needs with its PostgreSQL is told at start")
    func tooLittle() throws {
        func isTold(_ memory: Int, environment: [String: String] = [:]) throws -> Bool {
            try Self.read(environment: environment, memory: memory).notices
                .contains { $0.contains("may use \(memory) MiB") }
        }
        #expect(try isTold(256))
        #expect(try !isTold(384))
        #expect(try !isTold(256, environment: ["DATABASE_URL": "postgresql://server@db/ledger"]))
    }
}
