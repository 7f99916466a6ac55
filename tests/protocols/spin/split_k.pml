/* The last arrival of a split K, for Spin: PARTS blocks, LAUNCHES launches, a counter that is never set back.
   Each option is one step, so that Spin stores a state for each state of the model and no other. */

#define QUIET (!b[_pid].mine && !b[_pid].theirs)
#define stores 0
#define meets 1
#define releases 2
#define arrives 3
#define acquires 4
#define looks 5
#define adds 6
#define leaves 7
#define done 8

typedef Block { byte at; byte launch; bit others; bit last; bit mine; bit theirs; byte early }
Block b[PARTS];
byte launch, left, arrivals, combined, halves;
bit over;

active [PARTS] proctype block() {
end: do
  :: d_step { b[_pid].mine -> b[_pid].mine = 0; halves++ }
  :: d_step { b[_pid].theirs -> b[_pid].theirs = 0; halves++ }
  :: d_step { b[_pid].at != stores && b[_pid].at != done && !b[_pid].others -> b[_pid].others = 1; b[_pid].theirs = 1 }
  :: d_step { b[_pid].at == stores && launch == b[_pid].launch -> b[_pid].mine = 1; b[_pid].at = meets }
  :: d_step { b[_pid].at == meets && b[_pid].others -> b[_pid].at = releases }
  :: d_step { b[_pid].at == releases && QUIET -> b[_pid].at = arrives }
  :: d_step { b[_pid].at == arrives && !b[_pid].early -> b[_pid].early = (halves == 2 * PARTS -> 1 : 2) }
  :: d_step { b[_pid].at == arrives ->
       b[_pid].last = arrivals % PARTS == PARTS - 1; arrivals++; b[_pid].at = acquires }
  :: d_step { b[_pid].at == acquires -> b[_pid].early = 0; b[_pid].at = looks }
  :: d_step { b[_pid].at == looks && b[_pid].last -> b[_pid].last = 0; b[_pid].at = adds }
  :: d_step { b[_pid].at == looks && !b[_pid].last -> b[_pid].early = 0; b[_pid].at = leaves }
  :: d_step { b[_pid].at == adds -> assert(halves == 2 * PARTS); combined++; b[_pid].at = leaves }
  :: d_step { b[_pid].at == leaves && QUIET && b[_pid].others ->
       left++; b[_pid].others = 0; b[_pid].launch++; b[_pid].at = stores;
       if :: b[_pid].launch == LAUNCHES -> b[_pid].launch = 0; b[_pid].at = done :: else fi }
  od
}

active proctype stream() {
end: do
  :: d_step { left == PARTS && !over ->
       assert(combined == 1); left = 0; combined = 0; halves = 0; launch++;
       if :: launch == LAUNCHES -> launch = 0; over = 1 :: else fi }
  od
}
