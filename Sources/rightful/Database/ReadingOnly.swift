/// Why a database takes no writes.
enum ReadingOnly {
    case standby
    /// Its sessions begin as `read only`.
    case setting

    /// For operators: what it is, what comes of it, and what to do.
    var notice: String {
        switch self {
        case .standby:
            "the database only reads, because it is a standby: nothing can be recorded, and answers may lack what other services "
                + "acknowledged; use the server that writes (`target_session_attrs=read-write`), or promote it"
        case .setting:
            "the database only reads, because default_transaction_read_only is on: nothing can be recorded, though reads are "
                + "answered; where its provider turned that on because the disk is nearly full, make room and turn it off; where "
                + "another server writes instead, use that one (`target_session_attrs=read-write`)"
        }
    }
}
