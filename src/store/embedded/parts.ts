/** What every act on an embedded server needs: where it lies, its programs, and the account that runs it. */
import type { Binaries } from './binaries.ts'
import type { HomePaths } from './home-paths.ts'
import type { RunAs } from './run-as.ts'

export type Parts = { readonly paths: HomePaths; readonly binaries: Binaries; readonly runAs: RunAs }
