/** 64 bits of a worker's name, as an expression over `column`: whoever can have this lock knows that the worker is gone. */
export function lockKey(column: string): string {
  return `hashtextextended('concord.executor:' || ${column}, 0)`
}
