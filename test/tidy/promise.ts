/** Every file opens with its promise: a doc comment that says in a sentence what the file is for. */
import type { Finding } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

const opening = /^(?:#![^\n]*\n)?\/\*\*([\s\S]*?)\*\//

export function checkPromises(tree: Tree): Finding[] {
  return sources(tree, 'src', 'scripts', 'test')
    .filter(([path]) => !isTest(path))
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
