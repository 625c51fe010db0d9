/** One thing that is wrong with a catalog; all of them are told at once, and the service does not start. */
export type CatalogFinding = {
  readonly rule: string
  /** The definition that is wrong. */
  readonly subject: string
  readonly message: string
}

export function finding(rule: string, subject: string, message: string): CatalogFinding {
  return { rule, subject, message }
}
