extension WebFact {
    /// What it says was sold: by the lines of paid invoices that are a stretch of time, and by a payment of which our
    /// metadata names no product.
    ///
    /// A payment counts before it is made, too: the event that says that it was made may not repeat what was bought.
    package var sold: Set<WebProduct> {
        let lines = invoices.flatMap(\.lines).filter(\.isTime).map(\.product)
        let bought = payment.map { $0.catalogProductID == nil ? $0.products : [] } ?? []
        return Set(lines + bought).subtracting([WebProduct(price: nil, product: nil)])
    }
}
