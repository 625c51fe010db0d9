/** The exports of `@concordhq/concord/testing`: Concord for the tests of a project. */
export { openTestConcord, type TestConcord } from './open-test-concord.ts'
export type { RecordedCall, Misbehaviour } from './watch-effects.ts'
