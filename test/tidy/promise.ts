/** Every file over 60 lines and every index.ts opens with a doc comment that says its purpose in a sentence. */
import type { Finding } from './finding.ts'
import { linesOf } from './size.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** The code of a shorter file speaks for itself. */
const shortLines = 60
const opening = /^(?:#![^\n]*\n)?\/\*\*([\s\S]*?)\*\//

export function checkPromises(tree: Tree): Finding[] {
  return sources(tree, 'src', 'scripts', 'test')
    .filter(([path, text]) => !isTest(path) && (linesOf(text) > shortLines || path.endsWith('/index.ts')))
    .flatMap(([path, text]): Finding[] => {
      const said = opening
        .exec(text)?.[1]
        ?.replace(/^\s*\*/gm, ' ')
        .trim()
      if (said === undefined)
        return [{ path, line: 1, problem: 'does not open with a /** sentence that says its promise' }]
      const words = said.split(/\s+/).length
      return words >= 4 && /[.:!?]/.test(said)
        ? []
        : [{ path, line: 1, problem: `opens with "${said}", which is no sentence` }]
    })
}
